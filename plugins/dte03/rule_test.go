package main

import (
	"testing"

	"dtegate/plugins/plugintest"
)

func TestRule_Agrees(t *testing.T) { plugintest.Agree(t, "dte03", description, evaluate) }

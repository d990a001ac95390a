package main

import (
	"testing"

	"dtegate/plugins/plugintest"
)

func TestRule_Agrees(t *testing.T) { plugintest.Agree(t, "dte03/v4", description, evaluate) }

func TestSchema_Agrees(t *testing.T) {
	plugintest.SchemaAgrees(t, "dte03/v4", "v4/fe-ccf-v4.json", "03/v4_*.json")
}

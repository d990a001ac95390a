package main

import (
	"testing"

	"dtegate/plugins/plugintest"
)

func TestRule_Agrees(t *testing.T) { plugintest.Agree(t, "dte01/v2", description, evaluate) }

func TestSchema_Agrees(t *testing.T) {
	plugintest.SchemaAgrees(t, "dte01/v2", "v2/fe-f-v2.json", "01/v2_*.json")
}

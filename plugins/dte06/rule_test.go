package main

import (
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/plugins/sdk"
)

func TestRule_Agrees(t *testing.T) {
	for _, generation := range []string{"dte06/v3", "dte06/v4"} {
		t.Run(generation, func(t *testing.T) { plugintest.Agree(t, generation, description, sdk.Note) })
	}
}

func TestSchema_Agrees(t *testing.T) {
	t.Run("v3", func(t *testing.T) {
		plugintest.SchemaAgrees(t, "dte06/v3", "prev-generation/fe-nd-v3.json", "06/prev_v3_*.json")
	})
	t.Run("v4", func(t *testing.T) { plugintest.SchemaAgrees(t, "dte06/v4", "v4/fe-nd-v4.json", "06/v4_*.json") })
}

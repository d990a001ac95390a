package main

import (
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/plugins/sdk"
)

func TestRule_Agrees(t *testing.T) {
	for _, generation := range []string{"dte05/v3", "dte05/v4"} {
		t.Run(generation, func(t *testing.T) { plugintest.Agree(t, generation, description, sdk.Note) })
	}
}

func TestSchema_Agrees(t *testing.T) {
	t.Run("v3", func(t *testing.T) {
		plugintest.SchemaAgrees(t, "dte05/v3", "prev-generation/fe-nc-v3.json", "05/prev_v3_*.json")
	})
	t.Run("v4", func(t *testing.T) { plugintest.SchemaAgrees(t, "dte05/v4", "v4/fe-nc-v4.json", "05/v4_*.json") })
}

package main

import (
	"testing"

	"dtegate/plugins/plugintest"
)

func TestRule_Agrees(t *testing.T) {
	for _, generation := range []string{"dte01/v1", "dte01/v2"} {
		t.Run(generation, func(t *testing.T) { plugintest.Agree(t, generation, description, evaluate) })
	}
}

func TestSchema_Agrees(t *testing.T) {
	t.Run("v1", func(t *testing.T) {
		plugintest.SchemaAgrees(t, "dte01/v1", "prev-generation/fe-fc-v1.json", "01/prev_v1_*.json")
	})
	t.Run("v2", func(t *testing.T) { plugintest.SchemaAgrees(t, "dte01/v2", "v2/fe-f-v2.json", "01/v2_*.json") })
}

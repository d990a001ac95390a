package main

import (
	"testing"

	"dtegate/plugins/plugintest"
)

func TestRule_Agrees(t *testing.T) {
	for _, generation := range []string{"dte03/v3", "dte03/v4"} {
		t.Run(generation, func(t *testing.T) { plugintest.Agree(t, generation, description, evaluate) })
	}
}

func TestSchema_Agrees(t *testing.T) {
	t.Run("v3", func(t *testing.T) {
		plugintest.SchemaAgrees(t, "dte03/v3", "prev-generation/fe-ccf-v3.json", "03/prev_v3_*.json")
	})
	t.Run("v4", func(t *testing.T) { plugintest.SchemaAgrees(t, "dte03/v4", "v4/fe-ccf-v4.json", "03/v4_*.json") })
}

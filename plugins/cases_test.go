package plugins_test

import (
	"testing"

	"dtegate/plugins"
	"dtegate/plugins/plugintest"
)

func TestCases(t *testing.T) {
	for _, name := range plugins.Names {
		if manifest(t, name).Kind != "catalogue" {
			t.Run(name, func(t *testing.T) { plugintest.Cases(t, name) })
		}
	}
}

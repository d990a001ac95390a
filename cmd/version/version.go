// Package version returns the version of the programs, for --version, the status page and the metrics.
package version

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// packaged is the package's version, set by deploy/package.sh through the linker.
var packaged string

// String returns the version of the package that contained the program, "1.2.3". A program from no package returns its
// module's version, or else the first twelve digits of its revision, or else "(devel)".
func String() string {
	if packaged != "" {
		return packaged
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "(devel)"
}

// NewCollector returns the collector of dte_build_info.
func NewCollector() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_build_info",
		Help: "1; its label is the version of the package."}, []string{"version"})
	g.WithLabelValues(String()).Set(1)
	return g
}

package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/plugins/plugintest"
)

// TestLimits_Alerts: the shop's page turns yellow when central IT's first alert of the same thing rings; for a
// deadline, when the alert that pages somebody rings.
func TestLimits_Alerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "prometheus", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	hours := func(name string) int { return int(soon[name] / time.Hour) }
	days := func(name string) int { return int(soon[name] / oneDay) }
	for _, expression := range []string{
		fmt.Sprintf("(branch:dte_event_deadline:last > 0) - time() < %d * 3600", hours("event")),
		fmt.Sprintf("(branch:dte_documents_deadline:last > 0) - time() < %d * 3600", hours("documents")),
		fmt.Sprintf("(dte_contingency_correction_deadline_timestamp_seconds > 0) - time() < %d * 3600",
			hours("correction")),
		fmt.Sprintf("(branch:dte_refused_deadline:last > 0) - time() < %d * 3600", hours("refused")),
		fmt.Sprintf("dte_signing_certificate_expiry_timestamp_seconds - time() < %d * 86400", days("signing")),
		fmt.Sprintf("dte_tls_certificate_expiry_timestamp_seconds - time() < %d * 86400", days("api")),
		fmt.Sprintf("dte_store_free_bytes < %d * dte_store_reserve_bytes", lowDisk),
		fmt.Sprintf("abs(dte_clock_skew_seconds) > %d", int(skewed/time.Second)),
	} {
		if !strings.Contains(string(text), expression) {
			t.Errorf("no alert is %q", expression)
		}
	}
	if soon["ops"] != soon["api"] || soon["ca"] != soon["api"] {
		t.Error("one alert watches the certificates of TLS")
	}
}

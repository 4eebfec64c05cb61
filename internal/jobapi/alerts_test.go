package jobapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jobapi"
)

// The alerts that the guide of production names are those of the example, and read metrics that there are.
func TestAlertsHaveMetrics(t *testing.T) {
	rules, guide := read(t, "../../docs/prometheus/rules.yml"), read(t, "../../docs/guides/production.md")
	metrics := strings.Join(jobapi.NewMetrics(jobapi.MetricsOptions{}).Described(), "\n")
	for _, expr := range regexp.MustCompile(`(?m)expr: (.*)`).FindAllStringSubmatch(rules, -1) {
		for _, name := range regexp.MustCompile(`\btroupe_\w+`).FindAllString(expr[1], -1) {
			if !strings.Contains(metrics, `"`+name+`"`) {
				t.Errorf("an alert reads %s, which no process has", name)
			}
		}
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("the example has no alert")
	}
	for _, a := range alerts {
		if !strings.Contains(guide, "`"+a[1]+"`") {
			t.Errorf("the guide of production does not name %s", a[1])
		}
	}
}

// Prometheus takes the alerts, and raises each for what it is for.
func TestAlerts(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	switch {
	case err == nil:
	case os.Getenv("REQUIRE_PEERS") != "":
		t.Fatal("promtool is needed: Debian has it in the package prometheus")
	default:
		t.Skip("promtool is not installed: Debian has it in the package prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = filepath.Join("..", "..", "docs", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

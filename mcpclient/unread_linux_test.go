package mcpclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ERA-04: a server that ends because of the question is started again without it; one that
// fails at its start, with the question unread, is not started twice.
func TestFailingServerIsStartedOnce(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         int
	}{
		{"at its start", `echo x >> "$0"; echo "no API key" >&2; exit 1`, 1},
		{"at its start, after the question has come", `echo x >> "$0"; sleep 0.2; exit 1`, 1},
		{"because of the question", `echo x >> "$0"; read line; exit 1`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			starts := filepath.Join(t.TempDir(), "starts")
			_, err := Dial(t.Context(), Command("sh", "-c", tt.script, starts), &Options{System: realSystem(t)})
			if err == nil || !strings.Contains(err.Error(), "exit status 1") {
				t.Errorf("Dial: got %v, want how the process ended", err)
			}
			raw, err := os.ReadFile(starts)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(raw), "x"); n != tt.want {
				t.Errorf("started %d times, want %d", n, tt.want)
			}
		})
	}
}

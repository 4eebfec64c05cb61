package age_test

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/age"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90d": 90 * 24 * time.Hour, "1d": 24 * time.Hour, "36h": 36 * time.Hour, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute,
		"": 0, "d": 0, "0d": 0, "-1d": 0, "1.5d": 0, "0s": 0, "-3h": 0, "106752d": 0, "99999999999d": 0, "90": 0, "1d2h": 0,
	} {
		if got, err := age.Parse(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("Parse(%q): got %v, %v, want %v", text, got, err, want)
		}
	}
}

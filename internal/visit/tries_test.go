package visit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/visit"
)

// SECA-33: what one address may not try uses up nothing of what others may try for the same name,
// however often and however long it tries.
func TestTriesOfAnother(t *testing.T) {
	tests := []struct {
		name string
		from func(i int) string
	}{
		{"one address", func(int) string { return "192.0.2.1" }},
		{"one IPv6 network", func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := visit.NewTries()
				for hour := range 3 {
					allowed := 0
					for i := range 3600 {
						if !tries.Exceeded(tt.from(i), "alice") {
							allowed++
						}
						time.Sleep(time.Second)
					}
					if most := 2*60 + 6; allowed > most {
						t.Errorf("hour %d: %d attempts were allowed, want at most %d", hour, allowed, most)
					}
					for range 5 {
						if tries.Exceeded("192.0.2.77", "alice") {
							t.Fatalf("hour %d: alice is locked out", hour)
						}
					}
				}
			})
		})
	}
}

// Each limit holds alone, and time lifts it.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := func(tries *visit.Tries, address, name func(i int) string) (n int) {
			for i := range 200 {
				if !tries.Exceeded(address(i), name(i)) {
					n++
				}
			}
			return n
		}
		one := func(text string) func(int) string { return func(int) string { return text } }
		each := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
		for what, got := range map[string][2]int{
			"one address":               {allowed(visit.NewTries(), one("192.0.2.1"), each("user%d")), 30},
			"one address without names": {allowed(visit.NewTries(), one("192.0.2.1"), one("")), 30},
			"one name":                  {allowed(visit.NewTries(), each("192.0.2.%d"), one("alice")), 50},
			"one name at one address":   {allowed(visit.NewTries(), one("192.0.2.1"), one("alice")), 5},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %d attempts were allowed, want %d", what, got[0], got[1])
			}
		}
		tries := visit.NewTries()
		allowed(tries, one("192.0.2.1"), one("alice"))
		time.Sleep(31 * time.Second)
		if tries.Exceeded("192.0.2.1", "alice") || !tries.Exceeded("192.0.2.1", "alice") {
			t.Error("after half a minute there is one attempt more")
		}
	})
}

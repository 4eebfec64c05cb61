package config

import (
	"strings"
	"testing"
)

// Names are bounded to the byte, and have at least one.
func TestNameForms(t *testing.T) {
	for _, tt := range []struct {
		form  nameForm
		max   int
		wrong []string
	}{
		{agentName, 64, []string{"a.b", "a b", "a\n"}},
		{providerName, 64, []string{".a", "-a", "a/b", "ä"}},
		{headerName, 128, []string{"a:b", "a b", "a\r\n"}},
	} {
		longest := strings.Repeat("a", tt.max)
		if !tt.form.fits("a") || !tt.form.fits(longest) {
			t.Errorf("%s: does not fit 1 and %d letters", tt.form.pattern, tt.max)
		}
		for _, name := range append(tt.wrong, "", longest+"a") {
			if tt.form.fits(name) {
				t.Errorf("%s fits %q", tt.form.pattern, name)
			}
		}
	}
}

package pipe

import (
	"slices"
	"strings"
	"testing"
)

func TestLastOutput(t *testing.T) {
	var tail lastOutput
	for range 100 {
		_, _ = tail.Write([]byte(strings.Repeat("a", 9999) + "\n"))
	}
	if n := len(tail.String()); n != maxKept {
		t.Errorf("kept %d bytes, want %d", n, maxKept)
	}
	_, _ = tail.Write([]byte(strings.Repeat("b", 3*maxKept) + "\nlast\x00\x1b[31m words\n"))
	if got := tail.lastLines(); got != "last[31m words" {
		t.Errorf("lastLines: got %q", got)
	}
	if cap(tail.buf) > 4*maxKept {
		t.Errorf("holds %d bytes", cap(tail.buf))
	}
}

func TestEnvironment(t *testing.T) {
	value := "x=y"
	got := environment([]string{"PATH=/bin", "HOME=/h", "SECRET=1", "LC_ALL=C", "odd"}, map[string]*string{"HOME": nil, "NEW": &value})
	if want := []string{"LC_ALL=C", "NEW=x=y", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("environment: got %v, want %v", got, want)
	}
}

package owner

import (
	"os"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/store"
)

// TestNew: names are unique, IDs of a store, and begin with what they are asked to.
func TestNew(t *testing.T) {
	for _, prefix := range []string{"agent", "", "a host\nof a-b-c", strings.Repeat("long-", 60), "ä€"} {
		a, b := New(prefix), New(prefix)
		if a == b {
			t.Errorf("%.20q: got %q twice", prefix, a)
		}
		if err := store.CheckID("owner", a); err != nil {
			t.Errorf("%.20q: %v", prefix, err)
		}
		if Gone(a) {
			t.Errorf("%q: got gone, and this process lives", a)
		}
	}
	if a := New("agent"); !strings.HasPrefix(a, "agent-") {
		t.Errorf("got %q, want it to begin with agent-", a)
	}
	longest := nameOf(strings.Repeat("x", 200), process{place: strings.Repeat("f", placeLen), pid: 1<<63 - 1, start: 1<<64 - 1})
	if err := store.CheckID("owner", longest); err != nil {
		t.Errorf("the longest name: %v", err)
	}
}

// TestNoVerdict: of a name that says too little, or is of another place, nothing is known.
func TestNoVerdict(t *testing.T) {
	elsewhere := process{place: strings.Repeat("0", placeLen), pid: 1 << 22, start: 1}
	for _, name := range []string{"", "agent", "agent-5f0e4c1a-7d5e-4b1c-9c55-0123456789ab", "host-4194304-5f0e4c1a", "a--1-1-0123456789abcdef-x",
		nameOf("agent", elsewhere), nameOf("agent", process{}), "host-1-zz-" + self().place + "x-12345678", "host-" + "0-1-" + self().place + "-12345678"} {
		if Gone(name) {
			t.Errorf("%q: got gone", name)
		}
	}
}

// TestPlace: a name is understood by the process that made it.
func TestPlace(t *testing.T) {
	if self().place == "" {
		t.Skip("this system does not tell processes apart")
	}
	got, ok := parse(New("a-b"))
	if !ok || got != self() || got.pid != os.Getpid() {
		t.Errorf("got %+v, %v, want %+v", got, ok, self())
	}
}

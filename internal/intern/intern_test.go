package intern_test

import (
	"runtime"
	"testing"

	"github.com/troupe-dev/troupe/internal/intern"
)

type value struct {
	name string
	n    int
	m    map[string]int
	f    func() int
	any
}

func TestOf(t *testing.T) {
	var s intern.Set[value]
	counter := func(n int) func() int { return func() int { return n } }
	one := value{name: "a", n: 1, m: map[string]int{}, f: counter(1), any: new(int)}
	first := s.Of(one)
	if again := s.Of(one); again != first {
		t.Error("the same value has two copies")
	}
	others := map[string]func(*value){
		"number": func(v *value) { v.n = 2 }, "string": func(v *value) { v.name = "b" }, "map": func(v *value) { v.m = map[string]int{} },
		"function": func(v *value) { v.f = counter(2) }, "interface": func(v *value) { v.any = new(int) },
	}
	for what, change := range others {
		other := one
		change(&other)
		if s.Of(other) == first {
			t.Errorf("another %s has the same copy", what)
		}
	}
	if s.OfEqual(value{n: -1}, func(a, b *value) bool { return a.n == -b.n }) != first {
		t.Error("a copy that equal calls the same was not found")
	}
	mine := one
	mine.n = 7 // the caller's own
	if first.n != 1 || first.f() != 1 {
		t.Errorf("the copy is %+v", first)
	}
}

// A copy that is not used any more is not kept, and of many different ones only the newest are found again.
func TestOfForgets(t *testing.T) {
	var s intern.Set[value]
	gone := make(chan struct{})
	runtime.AddCleanup(s.Of(value{name: "a"}), func(c chan struct{}) { close(c) }, gone)
	runtime.GC()
	<-gone
	if v := s.Of(value{name: "a"}); v.name != "a" {
		t.Errorf("got %+v", v)
	}
	first := s.Of(value{n: -1})
	for i := range 100 {
		s.Of(value{n: i})
	}
	if s.Of(value{n: -1}) == first {
		t.Error("the oldest of many copies was found")
	}
	runtime.KeepAlive(first)
}

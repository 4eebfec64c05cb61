package actors

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// TestKids: few or many, children are found by path, and once.
func TestKids(t *testing.T) {
	var k kids
	want := make(map[string]*process)
	check := func() {
		t.Helper()
		n := 0
		for p := range k.all() {
			n++
			if want[p.pid.Id] != p {
				t.Fatalf("all: got %s, which is none or another", p.pid.Id)
			}
		}
		if n != len(want) || k.len() != n {
			t.Fatalf("all, len: got %d, %d, want %d", n, k.len(), len(want))
		}
		for path, p := range want {
			if k.get(path) != p {
				t.Fatalf("get(%s): got another", path)
			}
		}
		if k.get("none") != nil {
			t.Fatal("get: found a child that was never added")
		}
	}
	for _, most := range []int{3, fewKids, 3 * fewKids, 2} {
		for i := range most {
			p := &process{pid: &actor.PID{Id: fmt.Sprint(i)}}
			k.add(p)
			want[p.pid.Id] = p
			check()
		}
		for i := range most {
			path := fmt.Sprint((i*5 + 1) % most)
			if most%5 == 0 {
				path = fmt.Sprint(i)
			}
			k.remove(path)
			delete(want, path)
			check()
		}
	}
	var none *kids
	if none.len() != 0 || none.get("x") != nil {
		t.Error("nil has children")
	}
	for range none.all() {
		t.Error("nil has children")
	}
}

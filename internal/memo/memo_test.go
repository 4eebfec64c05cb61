package memo

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// ROB-3: whatever is set, entries and bytes are bounded.
func TestBounds(t *testing.T) {
	m := Map[int, int]{Max: 10, MaxSize: 100}
	for i := range 1000 {
		m.Set(i, i, i%60)
		if v, ok := m.Get(i); !ok || v != i {
			t.Fatalf("Get(%d): got %d, %t", i, v, ok)
		}
		if m.Len() > 10 || m.size > 100 {
			t.Fatalf("holds %d entries of %d bytes", m.Len(), m.size)
		}
	}
	m.Delete(999)
	if _, ok := m.Get(999); ok {
		t.Error("Get after Delete: got a value")
	}
	m.Set(998, 1, 101)
	if _, ok := m.Get(998); ok {
		t.Error("Get of a value that is larger than all may be: got one")
	}
}

// What was used last stays, whatever happens to the others.
func TestLastUsedStay(t *testing.T) {
	testLastUsedStay(t, few/2) // without a map
	testLastUsedStay(t, 3*few)
}

func testLastUsedStay(t *testing.T, most int) {
	m := Map[int, int]{Max: most}
	var want []int // keys, used last at the end
	forget := func(key int) { want = slices.DeleteFunc(want, func(k int) bool { return k == key }) }
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		key := random.IntN(2 * most)
		held := slices.Contains(want, key)
		switch random.IntN(8) {
		case 0:
			m.Delete(key)
			forget(key)
			continue
		case 1:
			m.DeleteFunc(func(k int) bool { return k%5 == key%5 })
			want = slices.DeleteFunc(want, func(k int) bool { return k%5 == key%5 })
			continue
		case 2:
			m.Update(key, 0, func(_ int, ok bool) (int, bool) {
				if ok != held {
					t.Fatalf("Update(%d): got %t, want %t", key, ok, held)
				}
				return 0, false
			})
			continue
		case 3, 4:
			if _, ok := m.Get(key); ok != held {
				t.Fatalf("Get(%d): got %t, want %t", key, ok, held)
			}
			if !held {
				continue
			}
		default:
			m.Set(key, i, key)
		}
		forget(key)
		want = append(want, key)
		want = want[max(0, len(want)-most):]
		var got []int
		size := 0
		for e := m.last.newer; ; e = e.newer {
			got = append(got, e.key)
			size += e.size
			if e == m.last {
				break
			}
		}
		if !slices.Equal(got, want) || m.Len() != len(want) || m.size != size {
			t.Fatalf("holds %v of %d bytes, want %v of %d", got, m.size, want, size)
		}
	}
	m.DeleteFunc(nil)
	if m.Len() != 0 || m.last != nil || m.size != 0 {
		t.Errorf("holds %d after all were deleted", m.Len())
	}
}

package memo

import "testing"

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
}

package completion

import "testing"

func TestArgument(t *testing.T) {
	tests := []struct {
		kinds []string
		n     int
		known bool
	}{
		{nil, 0, false},
		{[]string{"RUN"}, 0, true},
		{[]string{"RUN"}, 1, false},
		{[]string{"[SERVER...]"}, 3, true},
		{[]string{"[SERVER]", "TOOL"}, 1, false},
	}
	for _, tt := range tests {
		if got := argument(tt.kinds, tt.n) != nil; got != tt.known {
			t.Errorf("argument(%q, %d): got %v, want %v", tt.kinds, tt.n, got, tt.known)
		}
	}
}

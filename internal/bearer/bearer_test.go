package bearer_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/bearer"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		token string
		want  error
	}{
		{"0123456789abcdef", nil},
		{"AZaz09-._~+/AZaz09==", nil},
		{strings.Repeat("a", 4096), nil},
		{"", bearer.ErrLength},
		{"0123456789abcde", bearer.ErrLength},
		{strings.Repeat("a", 4097), bearer.ErrLength},
		{"0123456789 abcdef", bearer.ErrCharacters},
		{"0123456789abcdef\n", bearer.ErrCharacters},
		{"0123456789abcdé", bearer.ErrCharacters},
		{"0123=456789abcdef", bearer.ErrCharacters},
		{strings.Repeat("=", 20), bearer.ErrCharacters},
	}
	for _, tt := range tests {
		if got := bearer.Check(tt.token); !errors.Is(got, tt.want) {
			t.Errorf("Check(%q): got %v, want %v", tt.token, got, tt.want)
		}
	}
}

func TestIn(t *testing.T) {
	token := bearer.New("0123456789abcdef")
	tests := []struct {
		headers []string
		want    bool
	}{
		{[]string{"Bearer 0123456789abcdef"}, true},
		{[]string{"bearer  0123456789abcdef "}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"Basic 0123456789abcdef"}, false},
		{[]string{"Bearer 0123456789abcdeg"}, false},
		{[]string{"Bearer 0123456789abcdef", "Bearer 0123456789abcdef"}, false},
	}
	for _, tt := range tests {
		r := &http.Request{Header: http.Header{"Authorization": tt.headers}}
		if got := token.In(r); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.headers, got, tt.want)
		}
		if (bearer.Token{}).In(r) {
			t.Errorf("%q: the zero Token lets it in", tt.headers)
		}
	}
}

package bearer_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/bearer"
)

func TestNamed(t *testing.T) {
	const a, b, padded = "0123456789abcdef", "fedcba9876543210", "0123456789abcde=="
	for _, tt := range []struct {
		texts []string
		ask   string
		name  string
		ok    bool
	}{
		{[]string{a}, a, "", true},
		{[]string{padded}, padded, "", true},
		{[]string{a}, b, "", false},
		{[]string{"alice=" + a, "bob@example.com=" + b}, b, "bob@example.com", true},
		{[]string{"alice=" + a + "\nbob=" + padded + "\n"}, padded, "bob", true},
		{[]string{"alice=" + a, b}, b, "", true},
		{nil, a, "", false},
	} {
		n, err := bearer.ParseNamed(tt.texts...)
		if err != nil {
			t.Fatalf("%q: %v", tt.texts, err)
		}
		name, ok := n.Of(&http.Request{Header: http.Header{"Authorization": {"Bearer " + tt.ask}}})
		if name != tt.name || ok != tt.ok || n.Empty() != (tt.texts == nil) {
			t.Errorf("%q: of %q: got %q, %v", tt.texts, tt.ask, name, ok)
		}
	}
	for _, bad := range [][]string{{"short"}, {"alice=short"}, {"=" + a}, {"a/b=" + a}, {"alice=" + a, "alice=" + b}, {"alice=" + a, "bob=" + a}, {a, b}, {"al ice=" + a},
		{strings.Repeat("a", 65) + "=" + a}} {
		if _, err := bearer.ParseNamed(bad...); err == nil || strings.Contains(err.Error(), a) {
			t.Errorf("%q: got %v, want an error without a token", bad, err)
		}
	}
}

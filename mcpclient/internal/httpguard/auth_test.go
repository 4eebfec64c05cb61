package httpguard

import (
	"context"
	"fmt"
	"net/http"
	"testing"
)

// script is an Auth whose refusals are all made good.
type script struct{ denied int }

func (s *script) Authorize(context.Context, *http.Request) error { return nil }

func (s *script) Denied(context.Context, *http.Request, int, http.Header) (bool, error) {
	s.denied++
	return true, nil
}

// A request is sent again at most three times: with the nonce for its proof, with another token,
// for want of a scope. A new token that is refused as the old one was is the end (AUTH-62).
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		tokens   []string
		statuses []int
		want     int
	}{
		"a token":                    {[]string{"a", "b"}, []int{401, 401}, 1},
		"a token and a scope":        {[]string{"a", "b", "c"}, []int{401, 403, 401}, 3},
		"a nonce":                    {[]string{"a", "a"}, []int{401, 200}, 1},
		"a nonce and a token":        {[]string{"a", "a", "b"}, []int{401, 401, 200}, 2},
		"a nonce, a token, no more":  {[]string{"a", "a", "b", "c"}, []int{401, 401, 401, 401}, 2},
		"a nonce, a token, a scope":  {[]string{"a", "a", "b", "c"}, []int{401, 401, 403, 200}, 3},
		"proofs for ever":            {[]string{"a", "a", "a", "a", "a"}, []int{401, 401, 401, 401, 401}, 3},
		"for ever":                   {[]string{"a", "b", "c", "d", "e"}, []int{401, 403, 401, 403, 401}, 3},
		"nothing to be made good at": {[]string{"a"}, []int{500}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			auth := new(script)
			var refusals Refusals
			for i, status := range test.statuses {
				req := &http.Request{Header: http.Header{"Authorization": {"DPoP " + test.tokens[i]}, "Dpop": {fmt.Sprint(i)}}}
				again, err := refusals.Again(t.Context(), auth, req, &http.Response{StatusCode: status})
				if err != nil {
					t.Fatal(err)
				}
				if !again {
					break
				}
			}
			if auth.denied != test.want {
				t.Errorf("%d refusals were made good, want %d", auth.denied, test.want)
			}
		})
	}
}

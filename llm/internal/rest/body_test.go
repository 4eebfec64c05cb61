package rest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/troupe-dev/troupe/internal/memhttp"
)

// A body in parts arrives whole, with its length, and again if its request is sent again.
func TestBody(t *testing.T) {
	long := bytes.Repeat([]byte("long "), 50_000)
	tests := []struct {
		name string
		body Body
		want string
	}{
		{"whole", Body{Tail: []byte("tail")}, "tail"},
		{"parts", Body{Head: []byte("head "), Parts: [][]byte{[]byte("a"), {}, long, []byte("b")}, Tail: []byte(" tail")}, "head a" + string(long) + "b tail"},
		{"no tail", Body{Parts: [][]byte{[]byte("a"), {}}}, "a"},
	}
	var got []string
	client := memhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(body)) || len(r.TransferEncoding) > 0 {
			t.Errorf("got %d bytes and error %v, announced %d, %q", len(body), err, r.ContentLength, r.TransferEncoding)
		}
		if got = append(got, string(body)); len(got) == 1 {
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect) // net/http makes the body anew
		}
	}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, "http://llm.test", nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.body.Of(req)
			again, _ := req.GetBody()
			if err := iotest.TestReader(again, []byte(tt.want)); err != nil {
				t.Error(err)
			}
			got = nil
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if len(got) != 2 || got[0] != tt.want || got[1] != tt.want {
				t.Errorf("got %.100q, want twice %.100q", strings.Join(got, "; "), tt.want)
			}
		})
	}
}

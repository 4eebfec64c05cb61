package ticket_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

func newKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func sample() *ticket.Ticket {
	state := "mine"
	return &ticket.Ticket{
		Flow: "flow", Round: 2, Until: time.Now().Add(time.Hour).Round(0),
		Answers: []ticket.Answer{{
			Question: ticket.Question{Key: "name", Method: "elicitation/create", Digest: []byte{1, 2}},
			Result:   json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`),
		}},
		Once:  map[string]json.RawMessage{"paid": json.RawMessage(`{"n":1}`)},
		Asked: []ticket.Question{{Key: "page", Method: "elicitation/create", Digest: []byte{3}, ID: "e1", Schema: json.RawMessage(`{}`)}},
		Got:   map[string]json.RawMessage{"page": json.RawMessage(`{"action":"accept"}`)},
		Waits: 1, State: &state, Kept: "k1",
	}
}

var binding = ticket.Binding{Principal: "ada", Method: "tools/call", Params: [32]byte{1}}

func mustNew(t testing.TB, keys ...[]byte) *ticket.Sealer {
	t.Helper()
	s, err := ticket.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSeal(t testing.TB, s *ticket.Sealer, tk *ticket.Ticket) string {
	t.Helper()
	state, err := s.Seal(tk, binding)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestSealAndOpen(t *testing.T) {
	s, want := mustNew(t), sample()
	state := mustSeal(t, s, want)
	got, err := s.Open(state, binding)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Until.Equal(want.Until) {
		t.Errorf("Until: got %v, want %v", got.Until, want.Until)
	}
	got.Until = want.Until
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Open: got %+v, want %+v", got, want)
	}
	if again := mustSeal(t, s, want); again == state {
		t.Error("the same ticket was sealed twice with one nonce")
	}
	for _, secret := range []string{"Ada", "mine", "paid", "flow"} {
		raw, _ := base64.RawURLEncoding.DecodeString(state)
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the state shows %q", secret)
		}
	}
}

// SECA-12, MRTR-06: nothing opens but what was sealed, for whom and for what it was.
func TestForged(t *testing.T) {
	s := mustNew(t, newKey(1))
	state := mustSeal(t, s, sample())
	raw, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			forged := bytes.Clone(raw)
			forged[i] ^= 1 << bit
			if _, err := s.Open(base64.RawURLEncoding.EncodeToString(forged), binding); !errors.Is(err, ticket.ErrInvalid) {
				t.Fatalf("Open with bit %d of byte %d flipped: got %v, want %v", bit, i, err, ticket.ErrInvalid)
			}
		}
	}
	tests := []struct {
		name, state string
		binding     ticket.Binding
	}{
		{"another principal", state, ticket.Binding{Principal: "bob", Method: "tools/call", Params: [32]byte{1}}},
		{"nobody", state, ticket.Binding{Method: "tools/call", Params: [32]byte{1}}},
		{"another method", state, ticket.Binding{Principal: "ada", Method: "prompts/get", Params: [32]byte{1}}},
		{"other arguments", state, ticket.Binding{Principal: "ada", Method: "tools/call", Params: [32]byte{2}}},
		{"shifted parts", state, ticket.Binding{Principal: "adat", Method: "ools/call", Params: [32]byte{1}}},
		{"with something behind it", state + "-TAMPERED", binding},
		{"cut off", state[:len(state)-4], binding},
		{"empty", "", binding},
		{"with padding", state + "=", binding},
		{"with a newline", state + "\n", binding},
		{"the longest", strings.Repeat("A", ticket.MaxState), binding},
		{"longer", strings.Repeat("A", ticket.MaxState+1), binding},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := s.Open(tt.state, tt.binding); !errors.Is(err, ticket.ErrInvalid) {
				t.Errorf("Open: got %v, %v, want %v", got, err, ticket.ErrInvalid)
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t)
		state := mustSeal(t, s, sample())
		time.Sleep(time.Hour - time.Nanosecond)
		if _, err := s.Open(state, binding); err != nil {
			t.Errorf("Open before the expiry: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := s.Open(state, binding); !errors.Is(err, ticket.ErrInvalid) {
			t.Errorf("Open at the expiry: got %v, want %v", err, ticket.ErrInvalid)
		}
	})
}

func TestRotation(t *testing.T) {
	before, both, after := mustNew(t, newKey(1)), mustNew(t, newKey(2), newKey(1)), mustNew(t, newKey(2))
	old, young := mustSeal(t, before, sample()), mustSeal(t, both, sample())
	tests := []struct {
		name   string
		sealer *ticket.Sealer
		state  string
		opens  bool
	}{
		{"the old one, with both", both, old, true},
		{"the new one, with both", both, young, true},
		{"the new one, later", after, young, true},
		{"the old one, later", after, old, false},
		{"the new one, where only the old key is", before, young, false},
		{"with a key of its own", mustNew(t), old, false},
	}
	for _, tt := range tests {
		if _, err := tt.sealer.Open(tt.state, binding); (err == nil) != tt.opens {
			t.Errorf("%s: got error %v, want it to open: %v", tt.name, err, tt.opens)
		}
	}
}

func TestBounds(t *testing.T) {
	if _, err := ticket.New([][]byte{make([]byte, 16)}); !errors.Is(err, ticket.ErrKey) {
		t.Errorf("New with a key of 16 bytes: got %v, want %v", err, ticket.ErrKey)
	}
	s, tk := mustNew(t), sample()
	tk.Answers[0].Result = json.RawMessage(`"` + strings.Repeat("x", 20<<10) + `"`)
	if state := mustSeal(t, s, tk); len(state) > ticket.MaxState {
		t.Errorf("Seal: got %d bytes, want at most %d", len(state), ticket.MaxState)
	}
	tk.Answers[0].Result = json.RawMessage(`"` + strings.Repeat("x", 25<<10) + `"`)
	if _, err := s.Seal(tk, binding); !errors.Is(err, ticket.ErrTooLarge) {
		t.Errorf("Seal: got %v, want %v", err, ticket.ErrTooLarge)
	}
}

func FuzzOpen(f *testing.F) {
	s, err := ticket.New([][]byte{newKey(1), newKey(2)})
	if err != nil {
		f.Fatal(err)
	}
	state := mustSeal(f, s, sample())
	f.Add(state)
	f.Add(state[:10])
	f.Add("")
	f.Add("AQ")
	f.Add(strings.Repeat("A", 100))
	f.Fuzz(func(t *testing.T, in string) {
		got, err := s.Open(in, binding)
		if in == state || err == nil && isSample(got) { // of another process with the same key
			return
		}
		if !errors.Is(err, ticket.ErrInvalid) || got != nil {
			t.Errorf("Open(%q): got %v, %v", in, got, err)
		}
	})
}

// isSample reports whether a ticket is what sample makes: nothing else was sealed.
func isSample(got *ticket.Ticket) bool {
	want := sample()
	want.Until = got.Until
	return reflect.DeepEqual(got, want)
}

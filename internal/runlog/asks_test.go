package runlog

import (
	"encoding/json"
	"testing"
)

// Two calls that differ never share a hash; a hash of an older version still is that of its payload.
func TestPayloadHash(t *testing.T) {
	hash := func(arguments string) (json.RawMessage, string) {
		return Payload(OutcomePayload{Tool: "pay", Arguments: json.RawMessage(arguments), Key: "k"})
	}
	payload, a := hash(`{"amount":9007199254740993}`)
	if _, b := hash(`{"amount":9007199254740992}`); a == b {
		t.Errorf("both have the hash %s", a)
	}
	if !IsHash(a, payload) {
		t.Error("a hash is not that of its payload")
	}
	other, _ := hash(`{"amount":1}`)
	if IsHash(a, other) || IsHash(a, []byte("{")) || IsHash("", payload) {
		t.Error("a hash is that of another payload")
	}
	// As 5ab16bb1 has hashed it: 12.50 is 12.5 to RFC 8785.
	old := json.RawMessage(`{"tool":"pay","arguments":{"amount":12.50},"key":"k","sent":"0001-01-01T00:00:00Z"}`)
	if !IsHash("sha256:8335c24f35fed077d8aa7d4cb56fabdd3e5053020bbcb62d4d1c2235f7032cd8", old) {
		t.Error("the hash of an older version is not known")
	}
}

package form

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// The functions here read JSON that is known to be valid, without duplicate names.

// member is one member of an object, in the order of the text.
type member struct {
	name  string
	value json.RawMessage
}

// members takes an object apart; ok is false for anything else.
func members(raw json.RawMessage) (list []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var m member
		if m.name, ok = name.(string); !ok || dec.Decode(&m.value) != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}

func find(list []member, name string) json.RawMessage {
	for _, m := range list {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// counts reads the two bounds of a number of things; -1 is no upper bound.
func counts(list []member, least, most string) (low, high int, err error) {
	high = -1
	for _, b := range []struct {
		name string
		to   *int
	}{{least, &low}, {most, &high}} {
		raw := find(list, b.name)
		if raw == nil {
			continue
		}
		n, ok := count(raw)
		if !ok {
			return 0, 0, fmt.Errorf("has a %s that is not a whole number from 0", b.name)
		}
		*b.to = n
	}
	if high >= 0 && low > high {
		return 0, 0, fmt.Errorf("cannot be filled in: %s is more than %s", least, most)
	}
	return low, high, nil
}

func count(raw json.RawMessage) (int, bool) {
	digits := strings.TrimSuffix(string(raw), ".0") // as some encoders write every number
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1e8 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, digits != ""
}

func text(raw json.RawMessage) (s string, ok bool) {
	return s, len(raw) > 0 && raw[0] == '"' && jsonx.Unmarshal(raw, &s) == nil
}

// texts reads a list of strings.
func texts(raw json.RawMessage) ([]string, bool) {
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || jsonx.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	out := make([]string, len(list))
	for i := range list {
		var ok bool
		if out[i], ok = text(list[i]); !ok {
			return nil, false
		}
	}
	return out, true
}

// shorten cuts a text of the peer for a message, which quotes it.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

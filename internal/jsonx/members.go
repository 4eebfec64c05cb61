package jsonx

import (
	"bytes"
	"encoding/json"
)

// Member is one member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members takes an object apart, in the order of its text; ok is false for anything else.
func Members(raw json.RawMessage) (list []Member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		m := Member{Name: name.(string)}
		if dec.Decode(&m.Value) != nil {
			return nil, false
		}
		list = append(list, m)
	}
	_, err := dec.Token()
	return list, err == nil
}

// Text is the string that a value is; ok is false for anything else.
func Text(raw json.RawMessage) (s string, ok bool) {
	return s, bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) && Unmarshal(raw, &s) == nil
}

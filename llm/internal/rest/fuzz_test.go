package rest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// FuzzDecodeError holds that an error of a server is bounded, clean, and without the key
// (SECA-27), whatever it is made of.
func FuzzDecodeError(f *testing.F) {
	const key = "sk-0123456789"
	for _, seed := range []string{
		`{"error":{"message":"bad key sk-0123456789","code":"x","type":"y"}}`, `{"error":"sk-01234\u200b56789"}`, `{"detail":[{"msg":"x"}]}`,
		`{"object":"error","message":"x","code":404}`, `{"error":{"message":{"a":"\u001b[31m"}}}`, `{"error":{}}`, `[]`, `[{"error":{"status":"X","details":[{"@type":"google.rpc.RetryInfo","retryDelay":"9e9h"},7]}}]`, `[[{"error":"x"}]]`, `{"error":1e999}`,
		"{\"error\":\"sk-01234\\u0000\\u000056789\"}", `{"error":"sk-sk-01234567890123456789"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := rest.Origin{Provider: "p", Model: "m", Secrets: []string{key}}
		e := o.Decode(data)
		if e == nil {
			return
		}
		text := e.Error()
		if len(text) > 2<<10 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("Decode(%q): got %d bytes, %.300q", data, len(text), text)
		}
		if strings.Contains(e.Message, key) || strings.Contains(e.Code, key) {
			t.Errorf("Decode(%q): the key is in %q", data, text)
		}
	})
}

// FuzzFew holds that a list is decoded as any, unless it is too long.
func FuzzFew(f *testing.F) {
	for _, seed := range []string{`[]`, `[1,2]`, `null`, `[[1,2],{"a":"\",\\"}]`, `[` + strings.Repeat(`0,`, 1023) + `0]`, `[` + strings.Repeat(`0,`, 1024) + `0]`, `["[,\\\"],",1]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var few rest.Few[jsonx.Value]
		var list []jsonx.Value
		got, want := jsonx.Unmarshal(data, &few), jsonx.Unmarshal(data, &list)
		switch {
		case want != nil:
			if got == nil {
				t.Fatalf("Unmarshal(%q): got no error, want %v", data, want)
			}
		case len(list) > 1024:
			if !errors.Is(got, llm.ErrTooLarge) {
				t.Fatalf("Unmarshal of %d entries: got %v", len(list), got)
			}
		case got != nil || len(few) != len(list):
			t.Fatalf("Unmarshal(%q): got %d entries and %v, want %d", data, len(few), got, len(list))
		}
	})
}

// FuzzArguments holds that the arguments of a call are one JSON object, or an error.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{``, `null`, ` {} `, `{"a":1}`, `{"a":1,"a":2}`, `[]`, `{"a":1}{}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		was := bytes.Clone(data)
		args, err := rest.Arguments(data)
		var object map[string]json.RawMessage
		if err == nil && (jsonx.Unmarshal(args, &object) != nil || object == nil) {
			t.Errorf("Arguments(%q): got %q", data, args)
		}
		if !bytes.Equal(was, data) {
			t.Errorf("Arguments(%q) has changed it", was)
		}
	})
}

// FuzzCount holds that a number of tokens is never negative, nor so large that a sum of
// such would be.
func FuzzCount(f *testing.F) {
	for _, seed := range []string{`0`, `-5`, `1e400`, `12.5`, `9223372036854775807`, `"NaN"`, `null`, `{}`, `1E3`, `-0`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c rest.Count
		if jsonx.Unmarshal(data, &c) == nil && (c < 0 || rest.Sum(rest.Sum(0, c), c) < int(c)) {
			t.Errorf("Count of %q: got %d", data, c)
		}
	})
}

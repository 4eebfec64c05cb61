package sse

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAppendEvent(t *testing.T) {
	tests := []struct {
		event Event
		want  string
	}{
		{Event{Data: []byte("a")}, "data: a\n\n"},
		{Event{Type: "endpoint", Data: []byte("/m?s=1")}, "event: endpoint\ndata: /m?s=1\n\n"},
		{Event{HasID: true, ID: "7"}, "id: 7\ndata: \n\n"}, // WIRE-11
		{Event{HasRetry: true, Retry: 1500 * time.Millisecond}, "retry: 1500\n\n"},
		{Event{HasRetry: true, Retry: -time.Second}, "retry: 0\n\n"},
		{Event{}, "data: \n\n"},
		{Event{Data: []byte("a\nb\r\nc\rd\n")}, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{Event{Data: []byte("a\n\ndata: b")}, "data: a\ndata: \ndata: data: b\n\n"}, // SECA-50: no line of its own
	}
	for _, tt := range tests {
		if got, err := AppendEvent(nil, &tt.event); string(got) != tt.want || err != nil {
			t.Errorf("AppendEvent(%+v): got %q, %v, want %q", tt.event, got, err, tt.want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	for _, e := range []Event{{Type: "a\nb"}, {Type: "a\r"}, {ID: "a\nb", HasID: true}, {ID: "\r", HasID: true}, {ID: "\x00", HasID: true}} {
		if got, err := AppendEvent([]byte("x"), &e); !errors.Is(err, ErrField) || string(got) != "x" {
			t.Errorf("AppendEvent(%+v): got %q, %v, want %v", e, got, err, ErrField)
		}
	}
}

func TestAppendComment(t *testing.T) {
	for text, want := range map[string]string{"": ": \n\n", "hi": ": hi\n\n", "a\ndata: b": ": a\n: data: b\n\n"} {
		if got := AppendComment(nil, text); string(got) != want {
			t.Errorf("AppendComment(%q): got %q, want %q", text, got, want)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("message", "1", true, int64(5), true, []byte("a\r\nb"), "c")
	f.Add("", "", false, int64(0), false, []byte("\n\n"), "\r")
	f.Fuzz(func(t *testing.T, name, id string, hasID bool, ms int64, hasRetry bool, data []byte, comment string) {
		e := Event{Type: name, Data: data}
		if hasID {
			e.ID, e.HasID = id, true
		}
		if hasRetry {
			e.HasRetry, e.Retry = true, time.Duration(max(ms, 0)%MaxRetry.Milliseconds())*time.Millisecond
		}
		stream := AppendComment(nil, comment)
		stream, err := AppendEvent(stream, &e)
		if err != nil {
			if !strings.ContainsAny(name+id, "\r\n\x00") {
				t.Errorf("AppendEvent(%+v): %v", e, err)
			}
			return
		}
		if len(name) > maxOther/2 || len(id) > MaxID {
			return
		}
		want := e
		if name == "" {
			want.Type = DefaultType
		}
		want.Data = append([]byte{}, bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))...)
		got, err := readAll(NewReader(bytes.NewReader(AppendComment(stream, comment)), 0))
		if err != io.EOF || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("reading %q: got %+v, %v, want %+v", stream, got, err, want)
		}
	})
}

package mcp

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

var toolResults = []string{
	`{"content":[]}`,
	`{"content":[{"type":"text","text":"a"}]}`,
	` { "content" : [ { "text" : "\u0061\n\ud83d\ude00" , "type" : "te\u0078t" } ] , "isError" : true } `,
	`{"content":[{"type":"text","text":""},{"type":"text","text":"b"}],"structuredContent":{"a":[1, 2]},"isError":false,"resultType":"complete"}`,
	`{"content":[{"type":"text","text":"a"}],"structuredContent":null,"resultType":"odd"}`,
	`{"content":[{"type":"text","text":"a","annotations":{"priority":1}}]}`,
	`{"content":[{"type":"image","data":"","mimeType":"image/png"}],"_meta":{"a":1}}`,
	`{"content":[{"type":"text","text":"a"}],"later":1}`,
	`{"content":[{"type":"text","text":"a"}],"_meta":{}}`,
	`{"content":[{"type":"text","text":"a"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name": "s"},"x":null}}`,
	`{"content":[{"type":"text","text":"a"}],"_meta":{"x":1,"\\u0078":2}}`,
	`{"content":[],"_meta":null}`,
	`{"content":{"type":"text","text":"a"}}`,
	`{"content":null}`,
	`{"content":[{"type":"text"}]}`,
	`{"content":[{"text":"a"}]}`,
	`{"content":[{"type":"text","text":null}]}`,
	`{"content":[{"type":"text","text":"a","text":"b"}]}`,
	`{"content":[{"type":"text","text":"\ud800"}]}`,
	`{"content":[{"type":"text","text":"a"}`,
	`{"content":[{"type":"text","text":"a"}]}x`,
	`{"content":[],"isError":"no"}`,
	`{"content":[],"isError":null}`,
	`{"content":[],"content":[]}`,
	`{"isError":true}`,
	`[]`,
	``,
}

func TestDecodeCallToolResult(t *testing.T) {
	for _, raw := range toolResults {
		got, err := DecodeCallToolResult([]byte(raw))
		want := new(CallToolResult)
		if wrong := Unmarshal([]byte(raw), want); wrong != nil {
			if err == nil || err.Error() != wrong.Error() {
				t.Errorf("DecodeCallToolResult(%s): got %v, want %v", raw, err, wrong)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("DecodeCallToolResult(%s): got %+v, %v, want %+v", raw, got, err, want)
		}
	}
}

// What was decoded does not change with the frame.
func TestDecodeCallToolResultOwnsItsMemory(t *testing.T) {
	raw := []byte(`{"content":[{"type":"text","text":"a"}],"structuredContent":"a","resultType":"a","_meta":{"a":"a"}}`)
	r, err := DecodeCallToolResult(raw)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw, strings.Repeat("x", len(raw)))
	if r.Content.Text() != "a" || string(r.Meta["a"]) != `"a"` || string(r.StructuredContent) != `"a"` || r.ResultType != "a" {
		t.Errorf("after the frame has changed: got %+v, want a everywhere", r)
	}
}

var elicitAnswers = []string{
	`{"action":"accept"}`,
	`{"action":"accept","content":{}}`,
	`{"action":"decline","content":{"a":1}}`,
	` { "content" : { "a" : "\u0061" , "\u0062" : [ "x" , "y" ] , "c" : 1.50 , "d" : true } , "action" : "acc\u0065pt" } `,
	`{"action":"cancel","content":null}`,
	`{"action":"cancel","_meta":{"a":1}}`,
	`{"action":"accept","content":{"a":1},"later":{"x":1}}`,
	`{"action":"accept","content":{"a":1,"\u0061":2}}`,
	`{"action":"accept","content":{"a":null}}`,
	`{"action":"accept","content":{"a":{}}}`,
	`{"action":"accept","content":{"a":[1]}}`,
	`{"action":"accept","content":[]}`,
	`{"action":"accept","content":{"a":1}`,
	`{"action":"accept","content":{"a":tru}}`,
	`{"action":"accept","action":"accept"}`,
	`{"action":"accept"}x`,
	`{"action":"perhaps"}`,
	`{"action":null}`,
	`{"action":"\ud800"}`,
	`{}`,
	`[]`,
	`null`,
	``,
}

func TestDecodeElicitResult(t *testing.T) {
	for _, raw := range elicitAnswers {
		got, err := DecodeElicitResult([]byte(raw))
		want := new(ElicitResult)
		if wrong := Unmarshal([]byte(raw), want); wrong != nil {
			if err == nil || err.Error() != wrong.Error() {
				t.Errorf("DecodeElicitResult(%s): got %v, want %v", raw, err, wrong)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("DecodeElicitResult(%s): got %+v, %v, want %+v", raw, got, err, want)
		}
	}
}

// What was decoded does not change with the frame, and no value reaches into the next.
func TestDecodeElicitResultOwnsItsMemory(t *testing.T) {
	raw := []byte(`{"action":"accept","content":{"a":"a","b":"b"}}`)
	r, err := DecodeElicitResult(raw)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw, strings.Repeat("x", len(raw)))
	_ = append(r.Content["a"], `,"z":"z"`...)
	if r.Action != ActionAccept || string(r.Content["a"]) != `"a"` || string(r.Content["b"]) != `"b"` {
		t.Errorf("after the frame has changed: got %+v, want accept, a and b", r)
	}
}

func TestAppendElicitParams(t *testing.T) {
	schema := json.RawMessage("{\"type\": \"object\",\n\"properties\":{}}")
	for _, p := range []*ElicitParams{
		{}, {Message: "a\n\u2028<&>", RequestedSchema: schema}, {Mode: ElicitForm, Message: "m", RequestedSchema: schema},
		{Mode: ElicitURL, URL: "https://a.test/?a=1&b=2", ElicitationID: "i"}, {Message: "m", Task: &TaskOptions{}}, {Message: "m", Meta: Meta{}},
		{Message: "m", Meta: Meta{"b": json.RawMessage("1"), "a": json.RawMessage("2")}}, {Message: "m", Extra: map[string]json.RawMessage{"x": json.RawMessage("1")}},
		{Message: "\xff"}, {RequestedSchema: json.RawMessage("{")}, {RequestedSchema: json.RawMessage(`{"a":1,"a":2}`)}, {RequestedSchema: json.RawMessage("")},
		{Extra: map[string]json.RawMessage{"message": json.RawMessage("1")}},
	} {
		got, err := p.AppendJSON([]byte("x"))
		want, wrong := p.MarshalJSON()
		if wrong != nil {
			if err == nil || string(got) != "x" {
				t.Errorf("AppendJSON(%+v): got %s, %v, want an error: %v", p, got, err, wrong)
			}
			continue
		}
		if err != nil || string(got) != "x"+string(want) {
			t.Errorf("AppendJSON(%+v): got %s, %v, want x%s", p, got, err, want)
		}
	}
}

func BenchmarkDecodeElicitResult(b *testing.B) {
	raw := []byte(`{"action":"accept","content":{"ok":true}}`)
	b.Run("scanner", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeElicitResult(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("codec", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := Unmarshal(raw, new(ElicitResult)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeCallToolResult(b *testing.B) {
	type floorResult struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 60}, {"64KiB", 64 << 10}} {
		raw := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size.bytes) + `"}]}`)
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeCallToolResult(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("floor/"+size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := json.Unmarshal(raw, new(floorResult)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("codec/"+size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Unmarshal(raw, new(CallToolResult)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

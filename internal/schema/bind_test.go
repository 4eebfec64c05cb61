package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

type plainArgs struct {
	Text  string   `json:"text"`
	Count int      `json:"count,omitzero"`
	Small int8     `json:"small"`
	Size  uint16   `json:"size"`
	Ratio float32  `json:"ratio"`
	Exact float64  `json:"exact"`
	On    bool     `json:"on"`
	Tags  []string `json:"tags"`
	Plain string
	//lint:ignore U1000 it must be left alone
	hidden string
}

var boundTexts = []string{
	`{}`,
	` { "text" : "a" , "count" : -3 , "tags" : [ "x" , "y\n" ] } `,
	`{"tags":["x"],"Plain":"p","plain":"q","PLAIN":"r","hidden":"h","text":"\ud83d\ude00\u0000"}`,
	`{"te\u0078t":"escaped name","count":7}`,
	`{"text":null,"count":null,"on":null,"tags":null,"ratio":null}`,
	`{"tags":[],"on":true}`,
	`{"tags":[null]}`,
	`{"tags":[1]}`,
	`{"tags":{}}`,
	`{"tags":"x"}`,
	`{"text":1}`,
	`{"text":["a"]}`,
	`{"on":"true"}`,
	`{"on":0}`,
	`{"count":1.0}`,
	`{"count":1e2}`,
	`{"count":"1"}`,
	`{"count":-0,"exact":-0}`,
	`{"count":9223372036854775808}`,
	`{"small":128}`,
	`{"small":-128,"size":65535}`,
	`{"size":-1}`,
	`{"size":-0}`,
	`{"size":65536}`,
	`{"ratio":1e39}`,
	`{"ratio":0.1,"exact":1e-400}`,
	`{"exact":1e400}`,
	`{"exact":123456789012345678901234567890.5}`,
	`{"exact":true}`,
	`{"other":{"text":"x","a":[{"b":"]"}]},"text":"y"}`,
	`{"other":[],"text":"y","on":false}`,
	`[]`,
	`null`,
	`"text"`,
}

// The quick way and the codec must make the same of every text, also on top of
// defaults.
func checkBound(t *testing.T, data []byte) {
	t.Helper()
	defaults := func() plainArgs { return plainArgs{Text: "d", Count: 5, Tags: []string{"d", "e"}, On: true} }
	got, want := defaults(), defaults()
	err, wrong := NewBinder(reflect.TypeFor[plainArgs]()).Decode(data, &got), jsonx.Unmarshal(data, &want)
	if (err == nil) != (wrong == nil) || err != nil && err.Error() != wrong.Error() {
		t.Fatalf("Decode(%q): got error %v, want %v", data, err, wrong)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("Decode(%q): got %+v, want %+v", data, got, want)
	}
	checkBoundValid(t, data)
}

// Both in one pass make the same of every text as one after the other.
func checkBoundValid(t *testing.T, data []byte) {
	t.Helper()
	s, err := Compile(json.RawMessage(`{"type":"object","properties":{"text":{"maxLength":20},"count":{"minimum":-3},"on":{},"tags":{"items":{"minLength":1}}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := plainArgs{Text: "d"}, plainArgs{Text: "d"}
	wrong := s.Validate(data)
	if wrong == nil {
		wrong = jsonx.Unmarshal(data, &want)
	}
	err = NewBinder(reflect.TypeFor[plainArgs]()).DecodeValid(s, data, &got)
	if (err == nil) != (wrong == nil) || err != nil && err.Error() != wrong.Error() {
		t.Fatalf("DecodeValid(%q): got error %v, want %v", data, err, wrong)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("DecodeValid(%q): got %+v, want %+v", data, got, want)
	}
}

func TestBinder(t *testing.T) {
	for _, text := range boundTexts {
		checkBound(t, []byte(text))
	}
}

func FuzzBinder(f *testing.F) {
	for _, text := range boundTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if jsonx.Valid(data) {
			checkBound(t, data)
		}
	})
}

// What the quick way cannot do is left to the codec.
func TestBinderKnowsItsLimits(t *testing.T) {
	type named string
	type inner struct{ A int }
	tests := []struct {
		t     any
		plain bool
	}{
		{plainArgs{}, true},
		{struct{ A []string }{}, true},
		{struct{ A []int }{}, false},
		{struct{ A *string }{}, false},
		{struct{ A named }{}, false},
		{struct{ A any }{}, false},
		{struct{ A json.RawMessage }{}, false},
		{struct{ A inner }{}, false},
		{struct{ inner }{}, false},
		{struct {
			A int `json:"a,string"`
		}{}, false},
		{struct {
			A string `json:"a,case:ignore"`
		}{}, false},
		{struct {
			A string `json:"-"`
		}{}, false},
		{struct {
			A string `json:"'a,b'"`
		}{}, false},
		{struct {
			A string `json:"B"`
			B string
		}{}, false},
		{map[string]string{}, false},
		{struct{}{}, false},
		{textish{}, false},
	}
	for _, tt := range tests {
		if got := plainFields(reflect.TypeOf(tt.t)) != nil; got != tt.plain {
			t.Errorf("plainFields(%T): got %t, want %t", tt.t, got, tt.plain)
		}
	}
}

// textish decodes itself.
type textish struct{ A string }

func (t *textish) UnmarshalText(text []byte) error { t.A = string(text); return nil }

func BenchmarkBinder(b *testing.B) {
	type args struct {
		Message string   `json:"message"`
		Count   int      `json:"count"`
		Tags    []string `json:"tags"`
	}
	binder := NewBinder(reflect.TypeFor[args]())
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 60}, {"64KiB", 64 << 10}} {
		data := []byte(`{"message":"` + strings.Repeat("x", size.bytes) + `","count":3,"tags":["one","two"]}`)
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var in args
				if err := binder.Decode(data, &in); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("codec/"+size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var in args
				if err := jsonx.Unmarshal(data, &in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

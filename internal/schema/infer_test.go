package schema

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

type embedded struct {
	Z int `json:"z"`
}

type everything struct {
	Name   string          `json:"name" jsonschema:"who it is"`
	Nick   *string         `json:"nick"`
	Age    int32           `json:"age,omitempty"`
	Score  float64         `json:"score,omitzero"`
	Tags   []string        `json:"tags"`
	Labels map[string]int  `json:"labels,omitempty"`
	When   time.Time       `json:"when"`
	Raw    json.RawMessage `json:"raw"`
	Any    any             `json:"any"`
	Bytes  []byte          `json:"bytes"`
	Fixed  [2]bool         `json:"fixed"`
	Addr   netip.Addr      `json:"addr"`
	Num    json.Number     `json:"num"`
	Big    *big.Int        `json:"big"`
	Hidden chan int        `json:"-"`
	//lint:ignore U1000 it must be ignored
	private func()
	Inner   struct{ X *bool } `json:"inner"`
	*embedded
}

func TestFor(t *testing.T) {
	tests := []struct {
		t    reflect.Type
		want string
	}{
		{reflect.TypeFor[struct{}](), `{"type":"object","additionalProperties":false}`}, // TOOL-05
		{reflect.TypeFor[*struct{ A string }](), `{"type":["null","object"],"properties":{"A":{"type":"string"}},"required":["A"],"additionalProperties":false}`},
		{reflect.TypeFor[any](), `{}`},
		{reflect.TypeFor[string](), `{"type":"string"}`},
		{reflect.TypeFor[everything](), `{"type":"object","properties":{` +
			`"name":{"type":"string","description":"who it is"},"nick":{"type":["null","string"]},` +
			`"age":{"type":"integer","minimum":-2147483648,"maximum":2147483647},"score":{"type":"number"},` +
			`"tags":{"type":["null","array"],"items":{"type":"string"}},"labels":{"type":"object","additionalProperties":{"type":"integer"}},` +
			`"when":{"type":"string"},"raw":true,"any":true,"bytes":{"type":"string","contentEncoding":"base64"},` +
			`"fixed":{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":2},"addr":{"type":"string"},"num":{"type":"number"},` +
			`"big":{"type":["null","string"]},"inner":{"type":"object","properties":{"X":{"type":["null","boolean"]}},"additionalProperties":false},` +
			`"z":{"type":"integer"}},"required":["name","tags","when","raw","any","bytes","fixed","addr","num","inner"],"additionalProperties":false}`},
	}
	for _, tt := range tests {
		for range 3 { // the same bytes each time
			got, err := For(tt.t)
			if err != nil {
				t.Fatalf("For(%s): %v", tt.t, err)
			}
			if string(got) != tt.want {
				t.Errorf("For(%s):\n got %s\nwant %s", tt.t, got, tt.want)
			}
		}
		s := compile(t, tt.want)
		if s.plan == nil {
			t.Errorf("For(%s): its schema has no plan", tt.t)
		}
	}
}

type cyclic struct {
	Name string
	Next *cyclic
}

func TestForErrors(t *testing.T) {
	tests := []struct {
		t    reflect.Type
		want string
	}{
		{nil, "no type"},
		{reflect.TypeFor[struct{ Events chan int }](), "field .Events: chan int has no JSON form"},
		{reflect.TypeFor[struct{ In struct{ F []func() } }](), "field .In.F[]: func() has no JSON form"},
		{reflect.TypeFor[map[string]complex128](), "field [*]: complex128"},
		{reflect.TypeFor[struct{ M map[int]string }](), "field .M: a map needs string keys"},
		{reflect.TypeFor[cyclic](), "field .Next: schema.cyclic contains itself"},
	}
	for _, tt := range tests {
		if _, err := For(tt.t); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("For(%v): got %v, want %q", tt.t, err, tt.want)
		}
	}
}

package agent_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
)

// TestMarshalResult: a result is encoded as the codec does, whichever of its fields are set.
func TestMarshalResult(t *testing.T) {
	same := func(res *agent.Result) {
		t.Helper()
		got, err := agent.MarshalResult(res)
		want, wantErr := jsonx.Marshal(res)
		if string(got) != string(want) || (err == nil) != (wantErr == nil) {
			t.Errorf("got %s, %v, want %s, %v", got, err, want, wantErr)
		}
	}
	same(&agent.Result{})
	var leaves func(v reflect.Value, each func(reflect.Value))
	leaves = func(v reflect.Value, each func(reflect.Value)) {
		if v.Kind() != reflect.Struct {
			each(v)
			return
		}
		for i := range v.NumField() {
			leaves(v.Field(i), each)
		}
	}
	set := func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString("a\"b\n<\u2028😀")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Slice:
			v.SetBytes([]byte(`{ "b": [1, 2.50], "a": null }`))
		default:
			v.SetInt(1_500_000_007)
		}
	}
	var all agent.Result
	n := 0
	leaves(reflect.ValueOf(&all).Elem(), func(v reflect.Value) { set(v); n++ })
	same(&all)
	for at := range n { // one alone
		var res agent.Result
		i := 0
		leaves(reflect.ValueOf(&res).Elem(), func(v reflect.Value) {
			if i == at {
				set(v)
			}
			i++
		})
		same(&res)
	}
	for _, bad := range []agent.Result{{Text: "\xff"}, {Structured: json.RawMessage(`{`)}, {Structured: json.RawMessage{}},
		{Structured: json.RawMessage(`{"a":1,"a":2}`)}, {Structured: json.RawMessage(strings.Repeat("[", 9999) + strings.Repeat("]", 9999))}} {
		same(&bad)
	}
}

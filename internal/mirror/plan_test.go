package mirror

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
)

const planSchema = `{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},
	"level":{"type":["integer","null"],"x-mcp-header":"Level"},
	"deep":{"type":"object","properties":{"on":{"type":"boolean","x-mcp-header":"Deep-On"}}}}}`

// HDR-04, HDR-05, HDR-12, HDR-13, HDR-24, SECA-5
func TestPlanCheck(t *testing.T) {
	plan, err := NewPlan(json.RawMessage(planSchema))
	if err != nil || plan.Empty() {
		t.Fatalf("NewPlan: got empty %v, %v", plan.Empty(), err)
	}
	tests := []struct {
		args    string
		headers map[string][]string
		ok      bool
	}{
		{``, nil, true},
		{`{}`, nil, true},
		{`{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"eu"}}, true},
		{`{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {" eu\t"}}, true}, // HDR-04
		{`{"region":"eu"}`, nil, false},
		{`{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"EU"}}, false}, // values are case-sensitive
		{`{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"eu", "eu"}}, false},
		{`{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"us"}}, false},
		{`{"region":"Hello"}`, map[string][]string{"Mcp-Param-Region": {"=?base64?SGVsbG8=?="}}, true},
		{`{"region":"Hello"}`, map[string][]string{"Mcp-Param-Region": {"=?base64?SGVsbG8?="}}, false},
		{`{"region":"Hello"}`, map[string][]string{"Mcp-Param-Region": {"=?base64?SGVs!!!bG8=?="}}, false},
		{`{"region":"SGVsbG8="}`, map[string][]string{"Mcp-Param-Region": {"SGVsbG8="}}, true},
		{`{"region":""}`, map[string][]string{"Mcp-Param-Region": {""}}, true}, // HDR-13
		{`{"region":""}`, map[string][]string{"Mcp-Param-Region": {"=?base64??="}}, true},
		{`{"region":""}`, nil, false},
		{`{"region":"ü"}`, map[string][]string{"Mcp-Param-Region": {"ü"}}, false},
		{`{"region":"42"}`, map[string][]string{"Mcp-Param-Region": {"42.0"}}, false}, // a string is no number
		{`{"region":null}`, nil, true},
		{`{"region":null}`, map[string][]string{"Mcp-Param-Region": {""}}, false},
		{`{}`, map[string][]string{"Mcp-Param-Region": {"eu"}}, false},
		{`{"level":42}`, map[string][]string{"Mcp-Param-Level": {"42"}}, true},
		{`{"level":42.0}`, map[string][]string{"Mcp-Param-Level": {"42"}}, true},
		{`{"level":42}`, map[string][]string{"Mcp-Param-Level": {"42.0"}}, true},
		{`{"level":42}`, map[string][]string{"Mcp-Param-Level": {"4.2e1"}}, true},
		{`{"level":42}`, map[string][]string{"Mcp-Param-Level": {"=?base64?NDI=?="}}, true},
		{`{"level":42}`, map[string][]string{"Mcp-Param-Level": {"43"}}, false},
		{`{"level":42}`, map[string][]string{"Mcp-Param-Level": {"0x2a"}}, false},
		{`{"level":42}`, map[string][]string{"Mcp-Param-Level": {"4_2"}}, false},
		{`{"level":9007199254740993}`, map[string][]string{"Mcp-Param-Level": {"9007199254740993"}}, false}, // HDR-21
		{`{"level":null}`, nil, true},
		{`{"deep":{"on":true}}`, map[string][]string{"Mcp-Param-Deep-On": {"true"}}, true},
		{`{"deep":{"on":true}}`, map[string][]string{"Mcp-Param-Deep-On": {"True"}}, false},
		{`{"deep":{"on":true}}`, map[string][]string{"Mcp-Param-Deep-On": {"1"}}, false},
		{`{"deep":{"on":{}}}`, nil, false},
		{`{"deep":7}`, nil, true},
		{`{}`, map[string][]string{"Mcp-Param-Unknown": {"x"}}, true},
	}
	for _, tt := range tests {
		err := plan.Check(http.Header(tt.headers), json.RawMessage(tt.args))
		if (err == nil) != tt.ok {
			t.Errorf("Check(%v, %s): got %v, want ok %v", tt.headers, tt.args, err, tt.ok)
		}
		if _, is := errors.AsType[*MismatchError](err); err != nil && (!is || strings.Contains(err.Error(), "eu")) {
			t.Errorf("Check(%v, %s): got %v, want a MismatchError without the value", tt.headers, tt.args, err)
		}
	}
}

// HDR-22
func TestNewPlanRefuses(t *testing.T) {
	if _, err := NewPlan(json.RawMessage(property("r", `{"type":"number","x-mcp-header":"N"}`))); !errors.Is(err, ErrAnnotation) {
		t.Errorf("NewPlan: got %v, want ErrAnnotation", err)
	}
	if plan, err := NewPlan(json.RawMessage(`{"type":"object"}`)); err != nil || !plan.Empty() {
		t.Errorf("NewPlan: got empty %v, %v, want an empty plan", plan.Empty(), err)
	}
}

func FuzzPlanCheck(f *testing.F) {
	f.Add("eu", `{"region":"eu"}`)
	f.Add("=?base64?SGVsbG8=?=", `{"region":"Hello"}`)
	f.Add("42.0", `{"level":42}`)
	plan, err := NewPlan(json.RawMessage(planSchema))
	if err != nil {
		f.Fatal(err)
	}
	params, _ := Params(json.RawMessage(planSchema))
	f.Fuzz(func(t *testing.T, value, args string) {
		_ = plan.Check(http.Header{"Mcp-Param-Region": {value}, "Mcp-Param-Level": {value}}, json.RawMessage(args))
		headers, err := Headers(params, json.RawMessage(args))
		if err != nil {
			return
		}
		h := make(http.Header)
		for _, one := range headers { // what the client sends, the server takes
			h.Set(Prefix+one.Name, Encode(one.Value))
		}
		if err := plan.Check(h, json.RawMessage(args)); err != nil {
			t.Errorf("Check of the client's own headers for %q: got %v", args, err)
		}
	})
}

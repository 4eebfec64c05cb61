package setup

import (
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/mcpclient"
)

// The command line comes before the file, a name before *; without a terminal no
// person can be asked, and the server is told so by not being told of sampling (SAMP-01, SAMP-40).
func TestSamplingFlags(t *testing.T) {
	servers := []mcpclient.Server{{Name: "a"}, {Name: "b"}}
	file := config.Sampling{
		Default: config.SamplingPolicy{Mode: "deny", MaxTokensTotal: 10},
		Servers: map[string]config.SamplingPolicy{"b": {MaxRequests: 3, Models: []string{"small"}}, "elsewhere": {Mode: "allow"}},
	}
	tests := []struct {
		name     string
		flags    []string
		file     config.Sampling
		terminal bool
		a, b     mcpclient.SamplingMode
		want     string // of the error
	}{
		{"nothing said", nil, config.Sampling{}, true, "ask", "ask", ""},
		{"no terminal", nil, config.Sampling{}, false, "deny", "deny", ""},
		{"the file", nil, file, true, "deny", "deny", ""},
		{"all", []string{"*=allow"}, file, false, "allow", "allow", ""},
		{"one of all", []string{"b=ask", "*=allow"}, file, true, "allow", "ask", ""},
		{"to be asked, and no terminal", []string{"b=ask", "a=allow"}, file, false, "allow", "deny", ""},
		{"no server", []string{"c=ask"}, file, true, "", "", `"c"`},
		{"no mode", []string{"a"}, file, true, "", "", "SERVER=ask"},
		{"another mode", []string{"a=yes"}, file, true, "", "", "SERVER=ask"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := samplingFlags{modes: tt.flags}
			got, err := f.samplingOf(&tt.file, servers, tt.terminal)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("samplingOf: got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || got.Servers["a"].Mode != tt.a || got.Servers["b"].Mode != tt.b || len(got.Servers) != 2 {
				t.Errorf("samplingOf: got %+v, %v, want %s and %s", got, err, tt.a, tt.b)
			}
		})
	}
	f := samplingFlags{modes: []string{"*=allow"}}
	got, err := f.samplingOf(&file, servers, false)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]agent.SamplingPolicy{"a": {Mode: "allow", Tokens: 10}, "b": {Mode: "allow", Requests: 3, Models: []string{"small"}}}; !reflect.DeepEqual(got.Servers, want) {
		t.Errorf("policies: got %+v, want %+v", got.Servers, want)
	}
}

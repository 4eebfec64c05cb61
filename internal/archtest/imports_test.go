package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module     = "github.com/troupe-dev/troupe"
	protoactor = "github.com/asynkron/protoactor-go"
)

// levels says how high each top folder stands. A package imports only what is below
// it, directly or through others, and what is in its own folder: packages on one
// level do not import each other.
var levels = map[string]int{
	"mcp": 0,
	"llm": 1, "store": 1,
	"actors":    2,
	"mcpclient": 3, "mcpserver": 3,
	"agent": 4,
	"cmd":   5, "examples": 5,
}

// linked are the modules that a program links which imports agent. The second part
// is what the actor library brings along; nothing of that is ever initialised.
var linked = []string{
	module,
	"github.com/asynkron/protoactor-go",
	"github.com/cenkalti/backoff/v4",
	"github.com/go-json-experiment/json",
	"github.com/google/jsonschema-go",
	"github.com/google/uuid",
	"github.com/tailscale/hujson",
	"go.yaml.in/yaml/v3", // the frontmatter of skills
	"golang.org/x/net",   // the domains of URLs that a user is to open; see linkedOf
	"golang.org/x/sys",
	"golang.org/x/text",
	"golang.org/x/time", // limits of what a server may ask in a while

	"github.com/Workiva/go-datastructures",
	"github.com/beorn7/perks",
	"github.com/cespare/xxhash/v2",
	"github.com/emirpasic/gods",
	"github.com/go-logr/logr",
	"github.com/go-logr/stdr",
	"github.com/golang/protobuf",
	"github.com/lithammer/shortuuid/v4",
	"github.com/lmittmann/tint",
	"github.com/matttproud/golang_protobuf_extensions",
	"github.com/munnerz/goautoneg",
	"github.com/orcaman/concurrent-map",
	"github.com/prometheus/client_golang",
	"github.com/prometheus/client_model",
	"github.com/prometheus/common",
	"github.com/prometheus/procfs",
	"github.com/twmb/murmur3",
	"go.opentelemetry.io/auto/sdk",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/exporters/prometheus",
	"go.opentelemetry.io/otel/log",
	"go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/sdk",
	"go.opentelemetry.io/otel/sdk/metric",
	"go.opentelemetry.io/otel/trace",
	"google.golang.org/protobuf",
}

// linkedOf are the packages of a large module that are linked, if not all may be.
var linkedOf = map[string][]string{
	"golang.org/x/net":  {"golang.org/x/net/idna", "golang.org/x/net/publicsuffix"},
	"golang.org/x/time": {"golang.org/x/time/rate"},
}

// notLinked are the packages of ours that are for programs and tests: what asks on a
// terminal, reads the files of other hosts, YAML among them, plays a server or a model.
var notLinked = []string{"cmd", "agent/agenttest", "agent/console", "agent/expose", "agent/worker", "llm/llmtest", "internal/modelconfig", "internal/cli", "internal/config", "internal/hostimport", "internal/mcptest", "internal/memhttp", "mcpclient/terminal"}

// unlinkable says why agent must not link a package; "" if it may.
func unlinkable(path, mod string) string {
	only, some := linkedOf[mod]
	ours, isOurs := strings.CutPrefix(path, module+"/")
	switch {
	case !slices.Contains(linked, mod):
		return "of the module " + mod + ", which is not on the list"
	case some && !slices.Contains(only, path):
		return "which is more than is needed of " + mod
	case isOurs && slices.ContainsFunc(notLinked, func(p string) bool { return ours == p || strings.HasPrefix(ours, p+"/") }):
		return "which is for programs"
	}
	return ""
}

// pkg is what go list says of a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Standard     bool
	Module       *struct{ Path string }
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
	CgoFiles     []string
}

// root returns the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// list runs go list with cgo switched on, so that a package that needs it is seen.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	fields := "-json=ImportPath,Dir,Standard,Module,Imports,TestImports,XTestImports,Deps,CgoFiles"
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", fields}, args...)...)
	cmd.Dir, cmd.Env = root(t), append(os.Environ(), "CGO_ENABLED=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.String())
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

var (
	listOnce sync.Once
	listed   []pkg
)

// ours lists the packages of the module, once.
func ours(t *testing.T) []pkg {
	t.Helper()
	listOnce.Do(func() { listed = list(t, "./...") })
	return listed
}

// folder returns the top folder of a package of the module, "" for others.
func folder(path string) string {
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	top, _, _ := strings.Cut(rest, "/")
	return top
}

// upward names the imports of p that point in the wrong direction. Packages of
// internal have no level: they count by what they bring along.
func upward(p pkg) []string {
	top := folder(p.ImportPath)
	level, ok := levels[top]
	if !ok {
		return nil
	}
	var bad []string
	for _, dep := range p.Deps {
		other := folder(dep)
		if below, ok := levels[other]; ok && other != top && below >= level {
			bad = append(bad, fmt.Sprintf("%s imports %s", p.ImportPath, dep))
		}
	}
	return bad
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range ours(t) {
		for _, bad := range upward(p) {
			t.Error(bad)
		}
		if top := folder(p.ImportPath); top != "internal" && p.ImportPath != module {
			if _, ok := levels[top]; !ok {
				t.Errorf("%s is in a folder that has no level", p.ImportPath)
			}
		}
	}
}

func TestOnlyActorsImportsTheLibrary(t *testing.T) {
	for _, p := range ours(t) {
		if p.ImportPath == module+"/actors" {
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imp, protoactor) {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
}

// The library that the schema validator is compared with compiles metaschemas when it is
// imported, 4 ms for each process: only tests may.
func TestOnlyTestsImportTheOtherValidator(t *testing.T) {
	for _, p := range ours(t) {
		if strings.HasPrefix(p.ImportPath, module+"/internal/mcptest/") {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "github.com/santhosh-tekuri/jsonschema") {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
}

// TestWhatAgentLinks: no command line library, no terminal, no gRPC, no cgo, and
// nothing that nobody has thought about.
func TestWhatAgentLinks(t *testing.T) {
	for _, p := range list(t, "-deps", "./agent") {
		if p.Standard {
			continue
		}
		if len(p.CgoFiles) > 0 {
			t.Errorf("agent links %s, which needs cgo", p.ImportPath)
		}
		if p.Module == nil {
			continue
		}
		if why := unlinkable(p.ImportPath, p.Module.Path); why != "" {
			t.Errorf("agent links %s, %s", p.ImportPath, why)
		}
		if strings.HasPrefix(p.ImportPath, protoactor+"/") {
			switch rest := strings.TrimPrefix(p.ImportPath, protoactor+"/"); {
			case rest == "remote", rest == "cluster", strings.HasPrefix(rest, "cluster/"), rest == "persistence", rest == "router":
				t.Errorf("agent links %s", p.ImportPath)
			}
		}
	}
}

func TestAgentBuildsWithoutCgo(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles everything once more")
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "./agent")
	cmd.Dir, cmd.Env = root(t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("CGO_ENABLED=0 go build ./agent: %v\n%s", err, out)
	}
}

// TestUpward: the rule can be broken.
func TestUpward(t *testing.T) {
	tests := []struct {
		path, dep string
		bad       bool
	}{
		{"mcp", "actors", true},
		{"llm/openai", "store", true},
		{"llm/openai", "llm/internal/rest", false},
		{"mcpclient", "mcpserver", true},
		{"mcpclient", "actors/call", false},
		{"actors/loop", "llm", false},
		{"actors/loop", "mcpclient", true},
		{"agent", "cmd/troupe", true},
		{"cmd/troupe", "agent", false},
		{"internal/mcptest", "agent", false},
	}
	for _, tt := range tests {
		p := pkg{ImportPath: module + "/" + tt.path, Deps: []string{"fmt", module + "/" + tt.dep}}
		if got := len(upward(p)) > 0; got != tt.bad {
			t.Errorf("%s imports %s: got bad=%v, want %v", tt.path, tt.dep, got, tt.bad)
		}
	}
}

// TestUnlinkable: the rule can be broken.
func TestUnlinkable(t *testing.T) {
	tests := []struct {
		path, mod string
		bad       bool
	}{
		{module + "/mcpclient", module, false},
		{module + "/mcpclient/terminal", module, true},
		{module + "/agent/agenttest", module, true},
		{module + "/internal/hostconfig", module, false},
		{module + "/internal/hostimport", module, true},
		{module + "/internal/config", module, true},
		{module + "/cmd/troupe", module, true},
		{"golang.org/x/net/idna", "golang.org/x/net", false},
		{"golang.org/x/net/http2", "golang.org/x/net", true},
		{"golang.org/x/term", "golang.org/x/term", true},
		{"gopkg.in/yaml.v3", "gopkg.in/yaml.v3", true},
		{"github.com/spf13/cobra", "github.com/spf13/cobra", true},
	}
	for _, tt := range tests {
		if why := unlinkable(tt.path, tt.mod); (why != "") != tt.bad {
			t.Errorf("unlinkable(%q): got %q, want bad=%v", tt.path, why, tt.bad)
		}
	}
}

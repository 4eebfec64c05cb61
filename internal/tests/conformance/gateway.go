package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// gatewayProgram is what the suite drives as a gateway.
const gatewayProgram = "github.com/troupe-dev/troupe/internal/tests/conformance/gateway"

// gatewayRevisions are those that the gateway is driven in: one of each era. What differs
// in the others is the front's, which the server part drives in all of them.
var gatewayRevisions = []string{"2025-11-25", "2026-07-28"}

// gatewayPrefix begins the lines of verdicts.
const gatewayPrefix = "gateway     "

// Why scenarios do not apply to a gateway.
const (
	ownStream = "the tool closes the HTTP stream of its own call, and the fixture is on a pipe: there is none to close"
	ownKeys   = "it wants the questions under the keys that the tool has given them, all in one round: a gateway puts " +
		"what is asked of it under keys of its own, as it comes"
	ownTasks  = "no list of this revision says which tools may be tasks: a gateway waits for those of the servers, and answers"
	ownSkills = "the Skills extension is not relayed; the files of skills are resources as any other"
)

// notOfGateways says why scenarios do not apply to a gateway, by their names or what these
// begin with. All others do.
var notOfGateways = map[string]string{
	"server-sse-polling":                            ownStream,
	"input-required-result-basic-elicitation":       ownKeys,
	"input-required-result-multiple-input-requests": ownKeys,
	"input-required-result-ignore-extra-params":     ownKeys,
	"tasks-":    ownTasks,
	"sep-2640-": ownSkills,
}

// applying splits a plan into what applies to a gateway and, by the reason, what does not.
// A reason that is of no scenario is an error: the suite has changed.
func applying(plan []scenario) (apply []scenario, without map[string][]string, err error) {
	without = map[string][]string{}
	stale := maps.Clone(notOfGateways)
	for _, sc := range plan {
		if !slices.Contains(gatewayRevisions, sc.Revision) {
			continue
		}
		applies := true
		for name, why := range notOfGateways {
			if sc.Name == name || strings.HasSuffix(name, "-") && strings.HasPrefix(sc.Name, name) {
				without[why] = append(without[why], sc.String())
				delete(stale, name)
				applies = false
			}
		}
		if applies {
			apply = append(apply, sc)
		}
	}
	for name := range stale {
		err = errors.Join(err, fmt.Errorf("the suite has no scenario %s, which is said not to apply", name))
	}
	return apply, without, err
}

// gatewayUnderTest is a gateway with its three servers: the fixture over stdio, which has
// what the suite asks for and runs once for each client, and beside it two that serve all
// of them over HTTP: server-everything, published, and one on the SDK for TypeScript.
type gatewayUnderTest struct {
	*peers.Fixture
	everything, modern *peers.Server
}

// backend is a server in a configuration file.
type backend struct {
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	URL     string   `json:"url,omitempty"`
}

// testGateway drives a gateway with plain names in front of three servers.
func testGateway(ctx context.Context, s *suite, o options) (total, error) {
	plan, _, err := s.plan(ctx, servers)
	if err != nil {
		return total{}, err
	}
	plan, without, err := applying(plan)
	if err != nil {
		return total{}, err
	}
	plan = slices.DeleteFunc(plan, func(sc scenario) bool { return !o.only.MatchString(sc.String()) })
	var t total
	if len(plan) == 0 {
		return t, nil
	}
	begun := time.Now()
	g, err := startGateway(ctx, o.work)
	if err != nil {
		return t, err
	}
	for _, rev := range gatewayRevisions {
		part := slices.DeleteFunc(slices.Clone(plan), func(sc scenario) bool { return sc.Revision != rev })
		dir := filepath.Join(o.work, "gateway-"+rev)
		if o.only.String() == "" { // the suite runs what does not apply, too: that is not looked at
			for _, v := range s.driveAll(ctx, rev, part, g.URL, dir) {
				t.add(v, o, gatewayPrefix)
			}
			continue
		}
		for _, sc := range part {
			t.add(s.drive(ctx, sc, g.URL, filepath.Join(dir, sc.Name)), o, gatewayPrefix)
		}
	}
	err = errors.Join(ctx.Err(), g.stop())
	for why, names := range without {
		fmt.Fprintf(o.out, "left  %d scenarios: %s: %s\n", len(names), why, strings.Join(names, " "))
	}
	fmt.Fprint(o.out, t.lines("gateway", time.Since(begun)))
	return t, err
}

// startGateway builds the gateway and starts it with its servers.
func startGateway(ctx context.Context, dir string) (_ *gatewayUnderTest, err error) {
	fixture, err := peers.BuildFixture(ctx, dir)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "gateway")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, gatewayProgram).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", gatewayProgram, err, out)
	}
	g := new(gatewayUnderTest)
	defer func() {
		if err != nil {
			err = errors.Join(err, g.stop())
		}
	}()
	if g.everything, err = peers.ListenHTTP(ctx, peers.Everything); err != nil {
		return nil, err
	}
	if g.modern, err = peers.ListenHTTP(ctx, peers.Modern); err != nil {
		return nil, err
	}
	config, err := jsonx.Marshal(map[string]map[string]backend{"mcpServers": {
		"fixture":    {Command: fixture, Args: []string{"-stdio"}},
		"everything": {URL: g.everything.URL},
		"modern":     {URL: g.modern.URL},
	}})
	if err != nil {
		return nil, fmt.Errorf("writing the gateway's servers: %w", err)
	}
	file := filepath.Join(dir, "servers.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, fmt.Errorf("writing the gateway's servers: %w", err)
	}
	if g.Fixture, err = peers.StartFixture(ctx, program, "-servers", file); err != nil {
		return nil, err
	}
	return g, greet(ctx, g.URL)
}

// greeting is a request as the suite makes it, of a client that has forms.
const greeting = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"greet","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`

// greet has the servers started for such a client: one scenario gives its first call but
// 600 ms.
func greet(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(greeting))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("greeting the gateway: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("greeting the gateway: %s", res.Status)
	}
	return nil
}

// stop ends what is running of it.
func (g *gatewayUnderTest) stop() (err error) {
	if g.Fixture != nil {
		err = g.Stop()
	}
	for _, s := range []*peers.Server{g.everything, g.modern} {
		if s != nil {
			s.Stop()
		}
	}
	return err
}

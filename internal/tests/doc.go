// Package tests is the root of the module of tests and programs that the project needs
// and its users do not. They are run from this folder, or by make:
//
//	benchmarks      clients and calls within a process, a floor beside each
//	chaos           faults of workers that share a store: make chaos, make kill-matrix
//	chromium        starts a browser without a window for tests of pages
//	compare         our server beside go-sdk, mcp-go and a floor: make bench-servers
//	conformance     the official conformance suite against client, server, gateway and authorization server: make conformance
//	demo            an agent at work: make demo
//	e2e             our client, server and program with programs that others wrote
//	e2e/auth        logging in at servers, with programs that others wrote and a browser
//	e2e/logins      clients that log in at authorization servers and use servers of ours
//	e2e/connect     accounts connected in a browser, by clients of others and through a gateway
//	e2e/models      the program with real model servers: make e2e-models
//	hostile         servers, clients and models that break the rules
//	interop         our client and server with the Go SDK
//	metrics         the figures of docs/design.md: make metrics
//	modelservers    builds and starts Ollama and llama-server: make models
//	peers           installs and starts the published servers and clients
//	rules           the rules in docs/protocol.md and the tests that cite them: make rules
//	systems         the types of all packages on other operating systems: make cross
package tests

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Main is the path of the main module.
const Main = "github.com/troupe-dev/troupe"

// Root returns the folder of the main module. The working directory must be in either
// module.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", Main).Output()
	if err != nil {
		return "", fmt.Errorf("finding the main module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

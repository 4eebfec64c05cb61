package config_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/internal/config"
)

// SECA-45: a project's agent of the name of the user's keeps to what the user forbids it.
func TestProjectsAgentOfOurName(t *testing.T) {
	home, user, project := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(home, ".agents", "agents", "a.md"), "---\napprove: all\nservers: [files, git]\ntools: { allow: ['files__*'], deny: [files__rm] }\nlimits: { steps: 3 }\n---\nmine", 0o600)
	for _, tt := range []struct {
		name, text           string
		approve              string
		servers, allow, deny []string
	}{
		{"says nothing", "---\n---\ntheirs", "all", []string{"files", "git"}, []string{"files__*"}, []string{"files__rm"}},
		{"says less", "---\napprove: writes\nservers: [git, mail]\ntools: ['files__read', '*', 'mail__*', 'f*']\n---\ntheirs",
			"all", []string{"git"}, []string{"files__read"}, []string{"files__rm"}},
		{"others", "---\nservers: [mail]\ntools: { allow: ['mail__*'], deny: [x] }\n---\ntheirs", "all", []string{"files", "git"}, []string{"files__*"}, []string{"x", "files__rm"}},
	} {
		write(t, filepath.Join(project, ".agents", "agents", "a.md"), tt.text, 0o600)
		c, err := config.Places{Home: home, User: user, Project: project}.Load("")
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		a, err := c.Agent("a")
		if err != nil || !a.Foreign || a.Instructions != "theirs" || a.Approve != tt.approve || !slices.Equal(a.Servers, tt.servers) ||
			!slices.Equal(a.Allow, tt.allow) || !slices.Equal(a.Deny, tt.deny) || a.Limits.Steps != 3 {
			t.Errorf("%s: got %+v and error %v", tt.name, a, err)
		}
	}
}

// TestRepeatsWithin: a project may have the loop detector look sooner than the user has, and neither later nor not at all. What
// polls is the user's to say.
func TestRepeatsWithin(t *testing.T) {
	for _, tt := range []struct {
		user, project string
		want, notes   int
	}{
		{"", "", 0, 0},
		{"", "repeats: 2", 2, 0},
		{"", "repeats: 4", 0, 1},
		{"", "repeats: 0", 0, 1},
		{"repeats: 5", "repeats: 4", 4, 0},
		{"repeats: 5", "repeats: 6", 5, 1},
		{"repeats: 0", "repeats: 0", -1, 0},
		{"repeats: 0", "repeats: 9", 9, 0},
		{"repeats: 0", "", -1, 0},
	} {
		user, project := t.TempDir(), t.TempDir()
		places := config.Places{Project: project, User: user}
		write(t, places.UserFile(), "version: 1\nlimits: { "+tt.user+" }\nmcp: { polls: [ci__status] }\n", 0o600)
		write(t, filepath.Join(project, "troupe.yaml"), "version: 1\nlimits: { "+tt.project+" }\n", 0o600)
		c, err := places.Load("")
		if err != nil || c.Limits.Repeats != tt.want || len(c.Notes) != tt.notes || len(c.MCP.Polls) != 1 {
			t.Errorf("%q over %q: got %+v with %v, polls %v, error %v", tt.project, tt.user, c.Limits, c.Notes, c.MCP.Polls, err)
		}
		write(t, filepath.Join(project, "troupe.yaml"), "version: 1\nmcp: { polls: ['*'] }\n", 0o600)
		if _, err := places.Load(""); err == nil {
			t.Error("a project says what polls")
		}
	}
}

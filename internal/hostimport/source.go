package hostimport

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Source is a file in which another host keeps its servers.
type Source struct {
	Host string // such as cursor
	Path string
}

// Hosts are the names of the known hosts.
func Hosts() []string {
	return []string{"claude-code", "claude-desktop", "copilot", "crush", "cursor", "fast-agent", "gemini", "goose", "kit", "opencode", "vscode"}
}

// Places are the folders to search. The zero value has none.
type Places struct {
	Project string // the folder of the project
	Home    string
	Config  string // the user's folder for configurations, as os.UserConfigDir
	Getenv  func(string) string
}

// Here are the places of this process.
func Here() Places {
	p := Places{Getenv: os.Getenv}
	p.Project, _ = os.Getwd() // an unknown folder is not searched
	p.Home, _ = os.UserHomeDir()
	p.Config, _ = os.UserConfigDir()
	return p
}

// Find returns the files of a host that exist, those of the project first; of all
// hosts if the name is empty.
func (p *Places) Find(host string) []Source {
	var found []Source
	for _, s := range p.known() {
		if host != "" && s.Host != host || !filepath.IsAbs(s.Path) {
			continue
		}
		if info, err := os.Stat(s.Path); err == nil && info.Mode().IsRegular() && !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	return found
}

// known lists every file that may exist.
func (p *Places) known() []Source {
	var list []Source
	in := func(dir, host string, names ...string) {
		if dir == "" {
			return
		}
		for _, name := range names {
			list = append(list, Source{host, filepath.Join(dir, filepath.FromSlash(name))})
		}
	}
	xdg := p.Config
	if runtime.GOOS != "windows" && p.Home != "" { // many programs use ~/.config on every system but Windows
		xdg = filepath.Join(p.Home, ".config")
		if dir := p.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
			xdg = dir
		}
	}
	copilot := p.getenv("COPILOT_HOME")
	if copilot == "" && p.Home != "" {
		copilot = filepath.Join(p.Home, ".copilot")
	}
	in(p.Project, "claude-code", ".mcp.json")
	in(p.Home, "claude-code", ".claude.json")
	in(p.Config, "claude-desktop", "Claude/claude_desktop_config.json")
	in(copilot, "copilot", "mcp-config.json")
	in(p.Project, "crush", ".crush.json", "crush.json")
	in(xdg, "crush", "crush/crush.json")
	in(p.Project, "cursor", ".cursor/mcp.json")
	in(p.Home, "cursor", ".cursor/mcp.json")
	in(p.Project, "fast-agent", "fastagent.config.yaml", "fast-agent.yaml", "mcp_agent.config.yaml")
	in(p.Project, "gemini", ".gemini/settings.json")
	in(p.Home, "gemini", ".gemini/settings.json")
	in(xdg, "goose", "goose/config.yaml")
	in(p.Project, "kit", ".kit.yml", ".kit.yaml")
	in(p.Home, "kit", ".kit.yml", ".kit.yaml")
	in(p.Project, "opencode", "opencode.json", "opencode.jsonc")
	in(xdg, "opencode", "opencode/opencode.json", "opencode/opencode.jsonc")
	in(p.Project, "vscode", ".vscode/mcp.json")
	in(p.Config, "vscode", "Code/User/mcp.json")
	return list
}

func (p *Places) getenv(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// hostOf guesses the host by the name of its file; "" means the format of .mcp.json.
func hostOf(path string) string {
	base, dir := strings.ToLower(filepath.Base(path)), filepath.Base(filepath.Dir(path))
	switch {
	case base == "config.yaml" && dir == "goose":
		return "goose"
	case strings.HasPrefix(base, ".kit."):
		return "kit"
	case strings.HasSuffix(base, "crush.json"):
		return "crush"
	case strings.HasPrefix(base, "opencode.json"):
		return "opencode"
	case strings.HasSuffix(base, ".yaml"), strings.HasSuffix(base, ".yml"):
		return "fast-agent"
	}
	return ""
}

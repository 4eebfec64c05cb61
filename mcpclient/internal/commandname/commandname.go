// Package commandname guesses the name of a server from its command line.
package commandname

import (
	"path"
	"path/filepath"
	"strings"
)

// runners start a program that one of their arguments names.
var runners = map[string]bool{
	"npx": true, "uvx": true, "pipx": true, "bunx": true, "pnpm": true, "npm": true, "yarn": true, "bun": true,
	"node": true, "deno": true, "python": true, "python3": true, "uv": true, "go": true, "docker": true, "podman": true, "sh": true, "env": true,
}

// subcommands of runners that say nothing about the program.
var subcommands = map[string]bool{"run": true, "exec": true, "dlx": true, "x": true, "tool": true, "--": true}

// Of guesses a short name from a command line.
func Of(command string, args []string) string {
	name := base(command)
	if runners[name] {
		for _, arg := range args {
			if arg == "" || arg[0] == '-' || subcommands[arg] || strings.Contains(arg, "=") {
				continue
			}
			name = script(arg)
			break
		}
	}
	for _, affix := range []string{"mcp-server-", "server-", "mcp-"} {
		if rest := strings.TrimPrefix(name, affix); rest != "" {
			name = rest
		}
	}
	for _, affix := range []string{"-mcp-server", "-server", "-mcp"} {
		if rest := strings.TrimSuffix(name, affix); rest != "" {
			name = rest
		}
	}
	if name == "" || name == "." {
		return "server"
	}
	return name
}

// script names a program by its file, or by the folder of its project where the
// file is called as every project calls it.
func script(arg string) string {
	dir, name := arg, base(arg)
	for range 4 {
		if !commonNames[name] {
			return name
		}
		if dir = path.Dir(filepath.ToSlash(dir)); dir == "." || dir == "/" {
			break
		}
		name = base(dir)
	}
	return base(arg)
}

var commonNames = map[string]bool{"index": true, "main": true, "server": true, "cli": true, "dist": true, "build": true, "src": true, "lib": true, "bin": true}

// base strips folders, a scope, a version and the endings of programs.
func base(s string) string {
	s = path.Base(filepath.ToSlash(s))
	if i := strings.LastIndexByte(s, '@'); i > 0 {
		s = s[:i]
	}
	if i := strings.IndexByte(s, ':'); i > 0 {
		s = s[:i]
	}
	for _, ext := range []string{".exe", ".js", ".mjs", ".cjs", ".ts", ".py", ".sh"} {
		s = strings.TrimSuffix(s, ext)
	}
	return s
}

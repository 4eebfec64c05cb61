package hostconfig

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// harmless are the fields of a definition that start, contact and send nothing. A new field of [Server] or
// [Authorization] is either shown, or put here by a person who has thought about it.
var harmless = map[string]string{
	"Name":           "the name for it here",
	"Type":           "which of the protocol's transports is spoken to the same URL",
	"Disabled":       "nothing is started",
	"Description":    "for people",
	"Timeout":        "how long a call may take",
	"Instances":      "how many processes of the same command",
	"HeldInstances":  "how many processes of the same command",
	"NoAsk":          "the server may ask less",
	"Allow":          "fewer tools",
	"Deny":           "fewer tools",
	"TrustAll":       "a proposal, which is no consent",
	"TrustTools":     "a proposal, which is no consent",
	"DeferTools":     "not supported",
	"Sandbox":        "such a server is not started",
	"MaxMessage":     "the size of messages",
	"NoInstructions": "the server says less",
	"Warnings":       "about the definition",
	"Unknown":        "ignored",
	"File":           "where it is defined, which is shown beside it",
	"Line":           "where it is defined",
	"InURL":          "part of URL, which is shown without it",
	"Reach":          "what is shown",
	"Hash":           "of what is shown",
	"EarlierHash":    "of what is shown",
	"Err":            "it cannot be used",
	"OAuth":          "its fields are those of Authorization",
	"EnvFileUnread":  "the server cannot be used",

	"Authorization.Off":        "no login",
	"Authorization.NoResource": "set by Resource, which is shown",
}

// SECA-41, SECA-45: what a person is shown of a definition is all of it that starts, contacts or sends something.
func TestReachShowsEveryField(t *testing.T) {
	shown := map[string]bool{}
	for _, url := range []bool{false, true} {
		r := new(Reach)
		want := map[string]string{}
		fill(reflect.ValueOf(r).Elem(), "", want)
		if !url {
			r.URL = ""
			delete(want, "URL")
		} else {
			delete(want, "Command")
			delete(want, "Args")
		}
		text := strings.Join(r.Text(false), "\n")
		for field, value := range want {
			if strings.Contains(text, value) {
				shown[field] = true
			} else if harmless[field] == "" {
				t.Errorf("%s is not shown:\n%s", field, text)
			}
		}
	}
	server := reflect.TypeFor[Server]()
	for i := range server.NumField() {
		name := server.Field(i).Name
		if name == "Authorization" || shown[name] || harmless[name] != "" {
			continue
		}
		t.Errorf("the field %s of a server is neither shown nor harmless", name)
	}
	for name := range harmless {
		if shown[name] {
			t.Errorf("%s is shown, and is on the list of what need not be", name)
		}
	}
}

// fill gives each field a value of its own, and notes it by the field's name.
func fill(v reflect.Value, in string, want map[string]string) {
	for i := range v.NumField() {
		name, f := in+v.Type().Field(i).Name, v.Field(i)
		value := "value-of-" + name
		switch p := f.Addr().Interface().(type) {
		case *string:
			*p = value
		case *[]string:
			*p = []string{value}
		case *map[string]string:
			*p = map[string]string{"X-Name-Of-" + name: value}
		case *map[string]*string:
			*p = map[string]*string{"NAME_OF_" + name: &value}
		default:
			if f.Kind() == reflect.Struct {
				fill(f, name+".", want)
				continue
			}
			// a switch has no value that could be found: it is on the list, or shown with what it belongs to
		}
		want[name] = value
	}
}

// SECA-41: what is shown of real files, their own secrets hidden or not; variables are never put in.
func TestReachText(t *testing.T) {
	const literal = "literal-secret"
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "my.env"), []byte("KEY=in-the-file\nNODE_OPTIONS=--require ./x.js\nNODE_AUTH_TOKEN=in-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, def, want, masked string }{
		{"a command", `{"command":"npx","args":["-y","a b","${TOKEN}"]}`, `npx -y 'a b' '${TOKEN}'`, ""},
		{"its environment", `{"command":"npx","env":{"PATH":"/opt/bin:${PATH}","KEY":"` + literal + `","GONE":null,"HALF":"x${TOKEN:-y}"},"cwd":"sub"}`,
			"npx\nenv: GONE is taken away\nenv: HALF=x${TOKEN:-y}\nenv: KEY=" + literal + "\nenv: PATH=/opt/bin:${PATH}\ncwd: sub",
			"npx\nenv: GONE is taken away\nenv: HALF=********${TOKEN}\nenv: KEY=********\nenv: PATH=/opt/bin:${PATH}\ncwd: sub"},
		{"a file with an environment", `{"command":"npx","envFile":"my.env"}`, "npx\nenv file: my.env (sets KEY, NODE_AUTH_TOKEN, NODE_OPTIONS=--require ./x.js)", ""},
		{"a URL", `{"url":"https://h.example/${TOKEN}/mcp?key=${TOKEN}","headers":{"X-Trace":"${TOKEN}","X-Key":"` + literal + `"},"headersHelper":"./helper"}`,
			"https://h.example/${TOKEN}/mcp?key=${TOKEN}\nheader: X-Key: " + literal + "\nheader: X-Trace: ${TOKEN}\nruns on this computer: ./helper",
			"https://h.example/${TOKEN}/mcp?key=${TOKEN}\nheader: X-Key: ********\nheader: X-Trace: ${TOKEN}\nruns on this computer: ./helper"},
		{"a secret for an issuer", `{"url":"https://h.example","oauth":{"clientId":"c","clientSecret":"${TOKEN}","grant":"client_credentials","issuer":"https://evil.example"}}`,
			"https://h.example\nlogs in at: https://evil.example\nclient: c\nclient secret: ${TOKEN}\nwithout a person, by the grant: client_credentials", ""},
		{"a secret for whom the server names", `{"url":"https://h.example","oauth":{"clientId":"c","clientSecret":"` + literal + `"}}`,
			"https://h.example\nlogs in at: the authorization server that it names\nclient: c\nclient secret: " + literal,
			"https://h.example\nlogs in at: the authorization server that it names\nclient: c\nclient secret: ********"},
		{"a value that looks like another part", `{"url":"https://h.example","headers":{"X":"a; logs in at: https://good.example"}}`,
			"https://h.example\nheader: X: \"a; logs in at: https://good.example\"", "https://h.example\nheader: X: ********"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse(filepath.Join(folder, ".mcp.json"), []byte(`{"mcpServers":{"s":`+tt.def+`}}`), &Options{LookupEnv: func(string) (string, bool) { return "/expanded", true }})
			if err != nil || f.Servers[0].Err != nil {
				t.Fatal(err, f.Servers[0].Err)
			}
			r := f.Servers[0].Reach
			if tt.masked == "" {
				tt.masked = tt.want
			}
			for _, one := range []struct {
				mask bool
				want string
			}{{false, tt.want}, {true, tt.masked}} {
				if got := strings.Join(r.Text(one.mask), "\n"); got != one.want {
					t.Errorf("mask %v:\n%s\nwant\n%s", one.mask, got, one.want)
				}
			}
		})
	}
}

// SECA-45: a variable by which programs find code is one of those that are shown; one that holds a secret is not.
func TestChangesWhatRuns(t *testing.T) {
	for _, name := range []string{"PATH", "Path", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "npm_config_registry", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "ENV",
		"RUBYOPT", "PERL5OPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "GIT_ASKPASS", "https_proxy", "CLASSPATH", "GOFLAGS", "DOTNET_STARTUP_HOOKS", "HOME"} {
		if !changesWhatRuns(name) {
			t.Errorf("%s is hidden", name)
		}
	}
	for _, name := range []string{"GITHUB_TOKEN", "NODE_AUTH_TOKEN", "NPM_TOKEN", "OPENAI_API_KEY", "DOCKER_PASSWORD", "DB_URL"} {
		if changesWhatRuns(name) {
			t.Errorf("%s is shown", name)
		}
	}
}

// SECA-45: a PATH that finds programs in the folder of a project is refused, wherever it comes from.
func TestRelativePath(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "my.env"), []byte("PATH=./bin:/usr/bin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ def, refused string }{
		{`"env":{"PATH":"/usr/bin:/bin"}`, ""},
		{`"env":{"PATH":"${workspaceFolder}/bin:/bin"}`, ""},
		{`"env":{"PATH":null}`, ""},
		{`"env":{"GOPATH":"x"}`, ""},
		{`"env":{"PATH":"./bin:/usr/bin"}`, `env.PATH: its element 1, "./bin"`},
		{`"env":{"PATH":"/usr/bin:bin"}`, `env.PATH: its element 2, "bin"`},
		{`"env":{"PATH":"/usr/bin:"}`, `env.PATH: its element 2, ""`},
		{`"env":{"PATH":"/usr/bin::/bin"}`, `env.PATH: its element 2, ""`},
		{`"env":{"PATH":""}`, `env.PATH: its element 1, ""`},
		{`"env":{"PATH":"~/bin:/bin"}`, `env.PATH: its element 1, "~/bin"`},
		{`"env":{"Path":"./bin"}`, `env.Path: its element 1`},
		{`"env":{"PATH":"${DOTS}/bin"}`, `env.PATH: its element 1, "./bin"`},
		{`"envFile":"my.env"`, `env.PATH: its element 1, "./bin"`},
	}
	for _, tt := range tests {
		f, err := Parse(filepath.Join(folder, ".mcp.json"), []byte(`{"mcpServers":{"s":{"command":"npx",`+tt.def+`}}}`), &Options{LookupEnv: func(string) (string, bool) { return ".", true }})
		if err != nil {
			t.Fatal(err)
		}
		if bad := f.Servers[0].Err; (bad != nil) != (tt.refused != "") || bad != nil && !strings.Contains(bad.Error(), tt.refused) {
			t.Errorf("%s: got %v, want %q", tt.def, bad, tt.refused)
		}
	}
}

// SECA-45: an approval is bound to what a file of variables says, as far as it was shown; those of earlier versions
// were not, and are found by their own hash.
func TestHashHasEnvFile(t *testing.T) {
	folder := t.TempDir()
	of := func(vars, more string) Server {
		t.Helper()
		name := filepath.Join(folder, "my.env")
		if vars == "" {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(name, []byte(vars), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Parse(filepath.Join(folder, ".mcp.json"), []byte(`{"mcpServers":{"s":{"command":"npx"`+more+`}}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return f.Servers[0]
	}
	const file = `,"envFile":"my.env"`
	first := of("KEY=1\n", file)
	if again := of("KEY=2\n", file); again.Hash != first.Hash {
		t.Error("another secret: another hash")
	}
	hashes := []string{first.EarlierHash, first.Hash}
	for _, vars := range []string{"KEY=1\nNODE_OPTIONS=a\n", "KEY=1\nNODE_OPTIONS=b\n", "KEY=1\nMORE=1\n", "# nothing\n", ""} {
		s := of(vars, file)
		if s.EarlierHash != first.EarlierHash || slices.Contains(hashes, s.Hash) {
			t.Errorf("%q: the hash is none of its own, or the earlier one has changed", vars)
		}
		hashes = append(hashes, s.Hash)
	}
	if s := of("KEY=1\n", file+`,"disabled":true`); s.Hash != first.Hash {
		t.Error("a disabled server: another hash")
	}
	if s := of("KEY=1\n", ""); s.Hash != s.EarlierHash {
		t.Error("without a file: two hashes")
	}
}

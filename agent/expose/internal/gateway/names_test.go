package gateway

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQualifiedTool(t *testing.T) {
	tests := []struct{ server, tool, want string }{
		{"weather", "get", "weather__get"},
		{"weather", "get_now-1", "weather__get_now-1"},
		{"weather", "get.now", "weather__get_now_"},        // models take no dots
		{"we ather", "get", "we_ather__get_"},              // nor blanks
		{"a__b", "c", "a__b__c_"},                          // could be b__c of a
		{"a_", "b", "a___b_"},                              // could be _b of a
		{"s", strings.Repeat("x", 100), "s__xxxxxxxxxxxx"}, // too long
		{"s", "naïve\u202e", "s__na_ve__"},
		{"s", "", "s__"},
	}
	for _, tt := range tests {
		got := qualifiedTool(tt.server, tt.tool).qualified
		exact := !strings.HasSuffix(tt.want, "_") && len(tt.tool) < 50
		if !strings.HasPrefix(got, tt.want) || exact && got != tt.want || !isToolName(got) || len(got) > maxCallName {
			t.Errorf("qualifiedTool(%q, %q): got %q, want %q and maybe a hash", tt.server, tt.tool, got, tt.want)
		}
	}
}

func TestQualifiedNamesDiffer(t *testing.T) {
	long := strings.Repeat("x", 300)
	all := [][2]string{{"a", "b__c"}, {"a__b", "c"}, {"a_", "b"}, {"a", "_b"}, {"s", "t.u"}, {"s", "t_u"}, {"s", long + "1"}, {"s", long + "2"}}
	tools, prompts := map[string]bool{}, map[string]bool{}
	for _, one := range all {
		tools[qualifiedTool(one[0], one[1]).qualified] = true
		prompts[qualifiedPrompt(one[0], one[1]).qualified] = true
	}
	if len(tools) != len(all) || len(prompts) != len(all) {
		t.Errorf("qualified names of %d: got %d tools and %d prompts, want all different", len(all), len(tools), len(prompts))
	}
}

func TestPublicNames(t *testing.T) {
	tool := func(server, name string) owned { return qualifiedTool(server, name) }
	agents := func(name string) bool { return name == "booking" || name == "hotel__book" }
	tests := []struct {
		name  string
		plain bool
		all   []owned
		want  []string // "*" is the qualified name with a hash
	}{
		{"qualified", false, []owned{tool("a", "x"), tool("b", "x"), tool("b", "y")}, []string{"a__x", "b__x", "b__y"}},
		{"plain", true, []owned{tool("a", "x"), tool("b", "y")}, []string{"x", "y"}},
		{"both have it", true, []owned{tool("a", "x"), tool("b", "x"), tool("b", "y")}, []string{"a__x", "b__x", "y"}},
		{"an agent has it", true, []owned{tool("a", "booking")}, []string{"a__booking"}},
		{"an agent has the qualified one", false, []owned{tool("hotel", "book")}, []string{"hotel__book_*"}},
		{"no tool is called so", true, []owned{tool("a", "x y")}, []string{"a__x_y_*"}},
		{"a dot is none of a model's", true, []owned{tool("a", "x.y")}, []string{"x.y"}},
		// SECA-39: it would be taken for the other server's.
		{"passes for another", true, []owned{tool("weather", "get"), tool("evil", "weather__get"), tool("evil", "get")},
			[]string{"weather__get", "evil__weather__get", "evil__get"}},
		{"passes for one that is plain", true, []owned{tool("weather", "get"), tool("evil", "weather__get")},
			[]string{"get", "evil__weather__get"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := publicNames(tt.all, tt.plain, maxToolName, agents, isToolName)
			for i := range got {
				if before, ok := strings.CutSuffix(tt.want[i], "*"); got[i] != tt.want[i] && !(ok && strings.HasPrefix(got[i], before)) {
					t.Errorf("publicNames: name %d: got %q, want %q", i, got[i], tt.want[i])
				}
			}
			// TOOL-02: names do not depend on the order in which servers answer.
			back := slices.Clone(tt.all)
			slices.Reverse(back)
			again := publicNames(back, tt.plain, maxToolName, agents, isToolName)
			if slices.Reverse(again); !slices.Equal(again, got) {
				t.Errorf("publicNames of the same in another order: got %q, want %q", again, got)
			}
		})
	}
}

func FuzzQualified(f *testing.F) {
	f.Add("weather", "get")
	f.Add("a__b", "\xff")
	f.Add("", strings.Repeat("ä", 200))
	f.Fuzz(func(t *testing.T, server, name string) {
		if got := qualifiedTool(server, name).qualified; !isToolName(got) || len(got) > maxCallName {
			t.Errorf("qualifiedTool(%q, %q): got %q, which no tool may be called", server, name, got)
		}
		if got := qualifiedPrompt(server, name).qualified; !isPromptName(got) || !utf8.ValidString(got) {
			t.Errorf("qualifiedPrompt(%q, %q): got %q, which no prompt may be called", server, name, got)
		}
	})
}

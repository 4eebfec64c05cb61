package configcmd

import "testing"

func TestWithoutSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"":                               "",
		":8080":                          ":8080",
		"https://host.example/v1":        "https://host.example/v1",
		"https://host.example/v1?key=s3": "https://host.example/v1?***",
		"https://u:s3@host.example/":     "https://u:xxxxx@host.example/",
		"u:s3@host":                      "***",
		"host?key=s3":                    "***",
	} {
		if got := withoutSecrets(address); got != want {
			t.Errorf("withoutSecrets(%q): got %q, want %q", address, got, want)
		}
	}
}

package connect_test

import (
	"log"
	"net/http"
	"os"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/connect"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// Users log in at the OpenID provider whose tokens their MCP requests have, and paste a key.
func ExampleOIDC() {
	db, err := sqlite.Open("accounts.db", nil)
	if err != nil {
		log.Fatal(err)
	}
	keys, err := connect.Keys("accounts.key")
	if err != nil {
		log.Fatal(err)
	}
	secret := os.Getenv("LOGIN_SECRET")
	s, err := mcpserver.New(mcp.Implementation{Name: "tickets", Version: "1.0.0"}, &mcpserver.Options{Records: db})
	if err != nil {
		log.Fatal(err)
	}
	cn, err := connect.New(s, connect.Options{
		Base: "https://api.example.com/connect", Store: db, Keys: keys,
		Login: connect.OIDC(connect.OIDCOptions{Issuer: "https://login.example.com", ClientID: "pages", ClientSecret: secret}),
		Providers: []connect.Provider{connect.APIKey("tickets", connect.APIKeyConfig{
			Title: "Tickets", Help: "see Settings, API keys", API: []string{"https://api.tickets.example"},
			AccountURL: "https://api.tickets.example/me", AccountField: "email",
		})},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/mcp", s.Handler())
	http.Handle("/connect/", cn)
}

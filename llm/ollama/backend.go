package ollama

// Backend names who answers, for limits that all its models share: the provider alone
// for the server of this machine, else with the server's host, as in "ollama@gpu:11434".
func (c *Client) Backend() string {
	s := c.server
	switch {
	case s.url == nil || s.opts.Provider != provider: // one that was given a name is one server
		return s.opts.Provider
	case s.url.Port() == defaultPort && (s.url.Hostname() == "127.0.0.1" || s.url.Hostname() == "localhost"):
		return provider
	}
	return provider + "@" + s.url.Host
}

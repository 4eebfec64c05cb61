package userfile

// TryUsers reads a file of users, and tries a password with each whose hash is cheap.
func TryUsers(text, password string) (good int) {
	list, err := parse([]byte(text))
	if err != nil {
		return 0
	}
	for _, one := range list {
		if h, ok := parseArgon(one.Hash); ok && h.memory <= 64 && h.time <= 2 && check(one.Hash, password) {
			good++
		}
	}
	return good
}

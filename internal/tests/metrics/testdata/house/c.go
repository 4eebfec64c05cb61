package house

const large = 100

func largest(rooms []*room) (n int) {
	for _, r := range rooms {
		n = max(n, r.size)
	}
	return n
}

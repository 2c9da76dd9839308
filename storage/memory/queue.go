package memory

// A queue has records in the order of their going: a binary heap, in which each record knows its place.
//
// It is not container/heap because that calls through an interface for each comparison. What makes it cheap here is the
// usage: deadlines and ends of retention are nearly always later than those before, so that a push seldom moves
// anything.
type queue []*record

func (q queue) first() *record {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

func (q *queue) push(r *record) {
	r.index = len(*q)
	*q = append(*q, r)
	q.up(r.index)
}

func (q *queue) remove(r *record) {
	last := len(*q) - 1
	moved := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	if moved != r {
		moved.index = r.index
		(*q)[moved.index] = moved
		q.fix(moved)
	}
}

// fix puts r into its place after its time has changed.
func (q queue) fix(r *record) {
	if !q.up(r.index) {
		q.down(r.index)
	}
}

// up moves the record at i towards the first place as far as it belongs, and says whether it moved.
func (q queue) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if q[parent].gone <= q[i].gone {
			break
		}
		q.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (q queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q) {
			return
		}
		if right := child + 1; right < len(q) && q[right].gone < q[child].gone {
			child = right
		}
		if q[i].gone <= q[child].gone {
			return
		}
		q.swap(i, child)
		i = child
	}
}

func (q queue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

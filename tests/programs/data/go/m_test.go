package main

import "testing"

func TestSum(t *testing.T) {
	if sum(3) != 3 {
		t.Fatal()
	}
}

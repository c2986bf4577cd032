// Goroutines, a child, sockets, signals, garbage, names.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func sum(n int) (s int) {
	for i := 0; i < n; i++ {
		s += i
	}
	return
}

func main() {
	var wg sync.WaitGroup
	c := make(chan int, 1000)
	for i := 0; i < 1000; i++ {
		wg.Add(1)
		go func(n int) { defer wg.Done(); time.Sleep(time.Millisecond); c <- sum(n) }(i)
	}
	wg.Wait()
	close(c)
	t := 0
	for v := range c {
		t += v
	}
	fmt.Println("goroutines", t)
	out, err := exec.Command("sh", "-c", "echo child; exit 4").Output()
	fmt.Printf("%s %v\n", out[:5], err)
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() { k, _ := l.Accept(); k.Write([]byte("net")); k.Close() }()
	k, _ := net.Dial("tcp", l.Addr().String())
	b, _ := io.ReadAll(k)
	fmt.Println(string(b))
	s := make(chan os.Signal, 1)
	signal.Notify(s, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-s)
	x := make([][]byte, 0)
	for i := 0; i < 100; i++ {
		x = append(x, make([]byte, 1<<20))
	}
	runtime.GC()
	fmt.Println(len(x))
	a, err := net.LookupHost("localhost")
	fmt.Println(len(a) > 0, err)
}

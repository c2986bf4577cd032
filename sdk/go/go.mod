module sallyport.example/sandbox

go 1.19

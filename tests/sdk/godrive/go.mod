module sallyport.example/godrive

go 1.19

require sallyport.example/sandbox v0.0.0

replace sallyport.example/sandbox => ../../../sdk/go

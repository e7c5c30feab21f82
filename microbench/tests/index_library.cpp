// A wrapper as PiBench has them: its tree_api.hpp, and a class of its own.
#include <cstring>
#include <map>
#include <string>

struct tree_options_t {
    size_t key_size = 8, value_size = 8;
    std::string pool_path = "";
    size_t pool_size = 0, num_threads = 1;
};

class tree_api {
public:
    virtual ~tree_api(){};
    virtual bool find(const char *key, size_t sz, char *value_out) = 0;
    virtual bool insert(const char *key, size_t key_sz, const char *value, size_t value_sz) = 0;
    virtual bool update(const char *key, size_t key_sz, const char *value, size_t value_sz) = 0;
    virtual bool remove(const char *key, size_t key_sz) = 0;
    virtual int scan(const char *key, size_t key_sz, int scan_sz, char *&values_out) = 0;
};

class map_tree : public tree_api {
    std::map<std::string, std::string> map;
    std::string pool;

public:
    map_tree(const tree_options_t &options) : pool(options.pool_path) {}
    bool find(const char *key, size_t sz, char *value_out) override
    {
        auto found = map.find(std::string(key, sz));
        if (found != map.end())
            memcpy(value_out, found->second.data(), found->second.size());
        return found != map.end();
    }
    bool insert(const char *key, size_t key_sz, const char *value, size_t value_sz) override
    {
        return map.emplace(std::string(key, key_sz), std::string(value, value_sz)).second;
    }
    bool update(const char *key, size_t key_sz, const char *value, size_t value_sz) override
    {
        auto found = map.find(std::string(key, key_sz));
        if (found != map.end())
            found->second.assign(value, value_sz);
        return found != map.end();
    }
    bool remove(const char *, size_t) override { return false; }
    int scan(const char *, size_t, int, char *&) override { return 0; }
};

extern "C" tree_api *create_tree(const tree_options_t &options) { return new map_tree(options); }
